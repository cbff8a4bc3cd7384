/** What the suites use of a test framework; vitest, jest and bun fit as they are. */
export interface TestFramework {
  readonly describe: (name: string, body: () => void) => unknown
  readonly it: (name: string, body: () => Promise<void>) => unknown
  readonly expect: Expect
}

export type Expect = (actual: unknown, message?: string) => Expectation

export interface Expectation {
  readonly not: Expectation
  toBe(expected: unknown): void
  toEqual(expected: unknown): void
  toMatchObject(expected: object): void
  toBeGreaterThan(expected: number): void
  toBeLessThanOrEqual(expected: number): void
}

/** Tests by their names, each a sentence about what holds. */
export type Tests<Subject> = Readonly<Record<string, (subject: Subject) => Promise<void>>>

/** Where a leaf does something else than its contract says: the reason, and a test of what happens instead. */
export interface Deviation<Subject> {
  readonly reason: string
  readonly instead: (subject: Subject) => Promise<void>
}

/** The code of the IchidoError that `work` throws; `'nothing'` when it throws nothing, else the name and text of what it threw. */
export async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work()
    return 'nothing'
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
}
