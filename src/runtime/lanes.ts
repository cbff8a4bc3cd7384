import { type Report, runClaim } from '../consume/pipeline.ts'
import type { RunningConsumer } from '../consume/running.ts'
import { putBack, waitForStore } from '../consume/settle.ts'
import type { Claim, ClaimRequest } from '../contracts/deliveries.ts'
import { limits } from '../contracts/limits.ts'
import { released } from '../outcomes/decide.ts'
import { Bell } from './bell.ts'
import type { Gate } from './gate.ts'

export interface LaneSettings {
  readonly concurrency: number
  /** Most messages per transaction. */
  readonly batch: number
  readonly pollMs: number
  /** The incarnation that claims; it changes when the process was taken for dead. */
  readonly owner: () => string
}

/** After a failure this many batches run with a savepoint for each handler. */
const CAUTIOUS_BATCHES = 20

/**
 * The claims of one consumer in this process. Each lane claims, runs and settles one batch after another; one of the sleeping lanes keeps
 * the poll, and a lane that finds a full batch wakes the next.
 */
export class Lanes {
  readonly #running: RunningConsumer
  readonly #gate: Gate
  readonly #settings: LaneSettings
  readonly #bell: Bell
  #size = 1
  #cautious = 0
  #stopping = false
  #polling = false
  #failedClaims = 0
  #degradedAt: number | null = null
  #lanes: Promise<void>[] = []

  constructor(running: RunningConsumer, gate: Gate, settings: LaneSettings) {
    this.#running = running
    this.#gate = gate
    this.#settings = settings
    this.#bell = new Bell(running.clock)
  }

  get consumer(): string {
    return this.#running.consumer.name
  }

  start(): void {
    this.#lanes = Array.from({ length: this.#settings.concurrency }, () => this.#lane())
  }

  wake(): void {
    this.#bell.ring()
  }

  /** Starts nothing new; resolves when what runs has ended or was given up. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#bell.ringAll()
    await Promise.all(this.#lanes)
  }

  /** One suspect, if there is one, while nothing else runs in this process. Returns false when there was none. */
  async runSuspect(): Promise<boolean> {
    const claim = await this.#running.store.claimSuspect(this.#request(1))
    if (claim.deliveries.length === 0) return false
    await runClaim(this.#running, claim, true, null)
    return true
  }

  async #lane(): Promise<void> {
    let idleMs: number | null = 0
    while (!this.#stopping) {
      if (idleMs !== 0) await this.#sleep(idleMs)
      if (this.#stopping) break
      idleMs = await this.#gate.share(() => this.#burst())
    }
  }

  /** Sleeps until woken. One lane at a time also wakes for the poll or for the next due delivery. */
  async #sleep(idleMs: number | null): Promise<void> {
    if (this.#polling) return this.#bell.wait(null)
    this.#polling = true
    try {
      const { clock } = this.#running
      const pollMs = this.#settings.pollMs * (0.9 + 0.2 * clock.random())
      await this.#bell.wait(idleMs === null ? pollMs : Math.min(pollMs, Math.max(1, idleMs)))
    } finally {
      this.#polling = false
    }
  }

  /** Runs batches until nothing is found or the process is wanted for something else. Returns how long to sleep; 0: not at all. */
  async #burst(): Promise<number | null> {
    let claim: Claim | null = null
    for (let first = true; !this.#stopping || claim; first = false) {
      claim ??= await this.#claim()
      if (!claim) return 0
      if (claim.deliveries.length === 0) return claim.nextDueInMs
      // Another lane takes over the poll while this one works, and helps when there is more than one batch.
      if (this.#settings.concurrency > 1 && (first || claim.deliveries.length >= this.#size)) this.#bell.ring()
      claim = await this.#run(claim)
      if (!claim && this.#gate.closed) return 0
    }
    return 0
  }

  async #claim(): Promise<Claim | null> {
    try {
      const claim = await this.#running.store.claim(this.#request(this.#size))
      this.#failedClaims = 0
      this.#recovered()
      return claim
    } catch (error) {
      this.#degradedAt ??= this.#running.clock.monotonic()
      await waitForStore(this.#running, error, ++this.#failedClaims)
      return null
    }
  }

  #recovered(): void {
    if (this.#degradedAt === null) return
    const afterMs = this.#running.clock.monotonic() - this.#degradedAt
    this.#degradedAt = null
    this.#running.emit('recovered', { part: `store of ${this.consumer}`, afterMs })
  }

  async #run(claim: Claim): Promise<Claim | null> {
    const { clock, store } = this.#running
    const chain = store.facts.chainsClaims && !this.#stopping && !this.#gate.closed ? this.#request(this.#size) : null
    const startedAt = clock.monotonic()
    try {
      const report = await runClaim(this.#running, claim, this.#cautious > 0, chain)
      this.#adapt(report, claim.deliveries.length, clock.monotonic() - startedAt)
      return report.next
    } catch (error) {
      // Nothing that a message does may end up here; whatever did, the batch must not stay leased to a process that forgot it.
      await waitForStore(this.#running, error, ++this.#failedClaims)
      await putBack(this.#running, claim.deliveries.map(released), claim.epoch)
      return null
    }
  }

  /** Up while a full batch takes less than half of its budget; down to what fitted, or by half when the company of messages did harm. */
  #adapt(report: Report, claimed: number, tookMs: number): void {
    this.#cautious = report.failures > 0 ? CAUTIOUS_BATCHES : Math.max(0, this.#cautious - 1)
    if (report.aborts > 0) this.#size = Math.max(1, this.#size >> 1)
    else if (report.cutAt !== null) this.#size = Math.max(1, Math.min(this.#size, report.cutAt))
    else if (claimed >= this.#size && tookMs < this.#running.store.facts.batchBudgetMs / 2) {
      this.#size = Math.min(this.#settings.batch, this.#size * 2)
    }
  }

  #request(max: number): ClaimRequest {
    return { consumer: this.consumer, owner: this.#settings.owner(), max, maxBytes: limits.claimedBytes }
  }
}
