import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Clock, Timer } from '../../contracts/clock.ts'

type Wake = (consumer: string | null) => void

/**
 * Hints that there may be work. Commits of this process name the consumer; those of other processes are seen as writes to the WAL file,
 * gathered for a millisecond. A hint may be missed: polling is the truth.
 */
export class Wakeup {
  readonly #listeners = new Set<Wake>()
  readonly #clock: Clock
  readonly #changed: () => boolean
  #watcher: FSWatcher | null = null
  #timer: Timer | null = null

  /** `changed`: whether another connection has committed since the last question. */
  constructor(clock: Clock, changed: () => boolean) {
    this.#clock = clock
    this.#changed = changed
  }

  watch(path: string): void {
    const wal = `${basename(path)}-wal`
    try {
      this.#watcher = watch(dirname(path) || '.', { persistent: false }, (_, file) => {
        if (file === wal) this.#soon()
      })
      this.#watcher.on('error', () => this.close())
    } catch {
      // No watches left on this machine, or a file system without them: polling does without.
      this.#watcher = null
    }
  }

  listen(wake: Wake): () => void {
    this.#listeners.add(wake)
    return () => this.#listeners.delete(wake)
  }

  ring(consumer: string | null): void {
    for (const wake of this.#listeners) wake(consumer)
  }

  close(): void {
    this.#watcher?.close()
    this.#watcher = null
    this.#timer?.cancel()
  }

  #soon(): void {
    if (this.#timer || this.#listeners.size === 0) return
    this.#timer = this.#clock.after(
      1,
      () => {
        this.#timer = null
        if (this.#changed()) this.ring(null)
      },
      true,
    )
  }
}
