import type { EventName, Events } from '../contracts/events.ts'
import { toStoredError } from '../outcomes/stored-error.ts'

type Listener<Name extends EventName> = (event: Events[Name]) => void

/** Events for the outside. A listener that throws is reported as `hookFailed` and harms nothing. */
export class Emitter {
  readonly #listeners = new Map<EventName, Set<Listener<never>>>()

  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    const set = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, set)
    set.add(listener as Listener<never>)
    return () => set.delete(listener as Listener<never>)
  }

  emit<Name extends EventName>(name: Name, event: Events[Name]): void {
    const set = this.#listeners.get(name)
    if (!set) return
    for (const listener of set) this.guard(name, () => (listener as Listener<Name>)(event))
  }

  /** Runs a user's hook, awaits what it returns in the background, and reports what it throws. */
  guard(hook: string, run: () => unknown): void {
    const failed = (error: unknown) => {
      // A failing listener of hookFailed itself has nobody left to tell.
      if (hook !== 'hookFailed')
        this.emit('hookFailed', { hook, message: toStoredError(error, 'system', 'HOOK').message })
    }
    try {
      const result = run()
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}
