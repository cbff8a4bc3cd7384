import { parseArgs } from 'node:util'

export interface Subject {
  readonly work: string
  readonly subject: string
  readonly guarantees: string
  /** One round; returns messages per second. */
  readonly run: () => Promise<number>
}

export interface Measured {
  readonly work: string
  readonly subject: string
  readonly value: number
  readonly unit: string
  /** The value of the limit of the same work, in the same run. */
  readonly limit: number
  readonly ratio: number
  readonly guarantees: string
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number

/** Measures every subject once per round, one after another, so that a slow minute of the machine hits all of them. */
export async function measure(subjects: readonly Subject[], limitOf: Readonly<Record<string, string>>): Promise<void> {
  const { values } = parseArgs({
    options: { json: { type: 'boolean', default: false }, rounds: { type: 'string', default: '5' } },
  })
  const rounds = new Map(subjects.map(subject => [subject, [] as number[]]))
  for (let round = 1; round <= Number(values.rounds); round++) {
    for (const subject of subjects) {
      process.stderr.write(`\rround ${round}: ${subject.work}, ${subject.subject}`.padEnd(90))
      rounds.get(subject)?.push(await subject.run())
    }
  }
  process.stderr.write('\r'.padEnd(90))
  const results = [...rounds].map(([subject, found]) => ({
    ...subject,
    value: median(found),
    best: Math.max(...found),
  }))
  const measured = results.map(({ work, subject, value, guarantees }): Measured => {
    const limit = results.find(other => other.work === limitOf[work] && other.subject !== 'ichido')?.value ?? value
    return {
      work,
      subject,
      value: Math.round(value),
      unit: 'messages/s',
      limit: Math.round(limit),
      ratio: Math.round((value / limit) * 100) / 100,
      guarantees,
    }
  })
  if (values.json) console.log(JSON.stringify(measured, null, 2))
  else
    console.table(
      measured.map(({ guarantees, ...row }, index) => ({
        ...row,
        best: Math.round(results[index]?.best ?? 0),
        guarantees,
      })),
    )
}
