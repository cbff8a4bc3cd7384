import type { Clock } from '../contracts/clock.ts'
import { systemClock } from '../runtime/clock.ts'
import { deadLetters, replacing, reprocessing } from './store-suite/case-work.ts'
import { claims, keys } from './store-suite/claims.ts'
import { admission, custodies, retention } from './store-suite/custody.ts'
import { fences, processes } from './store-suite/fences.ts'
import { boundaries, hostileTextsAreStored } from './store-suite/hostile.ts'
import { kept } from './store-suite/kept.ts'
import { schema, status, subscriptions, versions } from './store-suite/reads.ts'
import { Scene, type StoreSubject } from './store-suite/scene.ts'
import { duplicates, sends } from './store-suite/sends.ts'
import { history, timers } from './store-suite/timers.ts'
import { heartbeats, overlapping, together } from './store-suite/together.ts'
import { guards, transactions } from './store-suite/transactions.ts'
import type { Deviation, TestFramework, Tests } from './test-framework.ts'

export interface StoreSuiteSubject extends StoreSubject {
  /** By `group: test`. */
  readonly deviations?: Readonly<Record<string, Deviation<Scene>>>
}

const groups: Readonly<Record<string, Tests<Scene>>> = {
  schema,
  subscriptions,
  sends,
  duplicates,
  kept,
  claims,
  keys,
  timers,
  history,
  fences,
  processes,
  'dead letters': deadLetters,
  reprocessing,
  replacing,
  versions,
  admission,
  custody: custodies,
  retention,
  transactions,
  'version guards': guards,
  status,
  'hostile texts': hostileTextsAreStored,
  boundaries,
  together,
  overlapping,
}

/**
 * The obligations of the contracts `store`, `deliveries`, `cases` and `ledger` as tests. Each gets a fresh database, and the books must
 * balance after each.
 */
export function storeSuite(subject: StoreSuiteSubject, framework: TestFramework): void {
  const { describe, it, expect } = framework
  describe(`the store contract on ${subject.name}`, () => {
    const names = new Set<string>()
    const register = (group: string, tests: Tests<Scene>, clock?: Clock) => {
      describe(group, () => {
        for (const [name, test] of Object.entries(tests)) {
          names.add(`${group}: ${name}`)
          const deviation = subject.deviations?.[`${group}: ${name}`]
          const title = deviation ? `${name} (deviates: ${deviation.reason})` : name
          it(title, () => perform(subject, framework, deviation?.instead ?? test, clock))
        }
      })
    }
    for (const [group, tests] of Object.entries(groups)) register(group, tests)
    register('heartbeats', heartbeats, systemClock)
    it('every declared deviation names a test', async () => {
      expect(Object.keys(subject.deviations ?? {}).filter(name => !names.has(name))).toEqual([])
    })
  })
}

async function perform(
  subject: StoreSuiteSubject,
  { expect }: TestFramework,
  test: (scene: Scene) => Promise<void>,
  clock?: Clock,
): Promise<void> {
  const scene = await Scene.open(subject, expect, clock)
  try {
    await test(scene)
    await scene.balanced()
    expect(scene.troubles.map(String), 'no part of the store failed').toEqual([])
  } finally {
    await scene.close()
  }
}
