import { IchidoError } from '../contracts/errors.ts'
import type { Copy, Envelope, Receiver, Transport, TransportFacts } from '../contracts/transport.ts'

// A broker inside the process, as small as the contract allows, and the reference for custody: per partition one active owner; a new owner
// starts at the first unsettled copy and is told what an older one had received. It loses acks and moves ownership on command.

export interface MemoryTransportOptions {
  /** Keys hash into this many partitions, each with one owner at a time. Default 1. */
  readonly partitions?: number
  /** Default 256 KiB. */
  readonly largestBodyBytes?: number
  /**
   * What a new owner gets: `unsettled`, the copies that were not acked (as from a queue), or `prefix`, everything from the first of them on,
   * acked or not (as from a log). Default `unsettled`.
   */
  readonly redelivery?: 'unsettled' | 'prefix'
}

/** What a broker does to its users on bad days, on command. */
export class MemoryFaults {
  readonly #group: (topic: string, consumer: string) => Group
  #lostAcks = 0
  #failingPublishes = 0
  #failuresStore = false
  #repeats = 0

  constructor(group: (topic: string, consumer: string) => Group) {
    this.#group = group
  }

  /** The next `count` acks are lost on their way: the receiver believes in them, the broker knows nothing. */
  loseNextAcks(count: number): void {
    this.#lostAcks = count
  }

  /** The next `count` calls of `publish` reject; `stored`: the messages got in all the same, and the answer was lost. */
  failNextPublishes(count: number, stored = false): void {
    this.#failingPublishes = count
    this.#failuresStore = stored
  }

  /** The next `count` messages are stored twice. */
  repeatNext(count: number): void {
    this.#repeats = count
  }

  /** Each partition goes to another receiver, or starts again at its only one; for it the old owner is a zombie. */
  moveOwnership(topic: string, consumer: string): void {
    this.#group(topic, consumer).move()
  }

  /** Every owner is gone without a word: it receives nothing more and its acks are dropped. Receivers that waited take over. */
  killOwner(topic: string, consumer: string): void {
    this.#group(topic, consumer).killOwners()
  }

  losesAck(): boolean {
    return this.#lostAcks > 0 && this.#lostAcks-- > 0
  }

  failsPublish(): { readonly stored: boolean } | null {
    return this.#failingPublishes > 0 && this.#failingPublishes-- > 0 ? { stored: this.#failuresStore } : null
  }

  repeats(): boolean {
    return this.#repeats > 0 && this.#repeats-- > 0
  }
}

/** What one consumer has of one partition. Copies before `low` are settled, those before `seen` were handed out to somebody once. */
interface Share {
  readonly entries: readonly Envelope[]
  owner: MemoryReceiver | null
  /** Grows with each change of owner: acks of an older generation are dropped. */
  generation: number
  low: number
  next: number
  seen: number
  readonly settled: Set<number>
}

/** One consumer of one topic: its receivers, and who owns which partition. */
class Group {
  readonly receivers: MemoryReceiver[] = []
  readonly #shares: readonly Share[]
  readonly #forgetsLaterAcks: boolean
  readonly #faults: MemoryFaults

  constructor(partitions: readonly Envelope[][], forgetsLaterAcks: boolean, faults: MemoryFaults) {
    this.#forgetsLaterAcks = forgetsLaterAcks
    this.#faults = faults
    this.#shares = partitions.map(entries => {
      return { entries, owner: null, generation: 0, low: 0, next: 0, seen: 0, settled: new Set() }
    })
  }

  join(receiver: MemoryReceiver): void {
    this.receivers.push(receiver)
    this.#spread()
  }

  leave(receiver: MemoryReceiver): void {
    const index = this.receivers.indexOf(receiver)
    if (index < 0) return
    this.receivers.splice(index, 1)
    for (const share of this.#sharesOf(receiver)) this.#give(share, null)
    this.#spread()
  }

  take(receiver: MemoryReceiver, max: number): Copy[] {
    this.#spread()
    const copies: Copy[] = []
    for (const share of this.#sharesOf(receiver)) {
      while (share.next < share.entries.length && copies.length < max) {
        const index = share.next++
        if (!share.settled.has(index)) copies.push(this.#hand(share, index))
      }
    }
    return copies
  }

  move(): void {
    for (const share of this.#shares) {
      const index = share.owner ? this.receivers.indexOf(share.owner) : -1
      this.#give(share, this.receivers[(index + 1) % this.receivers.length] ?? null)
    }
  }

  killOwners(): void {
    const owners = this.receivers.filter(receiver => this.#sharesOf(receiver).length > 0)
    for (const owner of owners) this.leave(owner)
  }

  wake(): void {
    for (const receiver of this.receivers) receiver.wake()
  }

  /** Partitions without an owner find one; an owner with more than its part passes on one of which it has settled everything. */
  #spread(): void {
    for (const share of this.#shares) {
      const [least] = [...this.receivers].sort((a, b) => this.#sharesOf(a).length - this.#sharesOf(b).length)
      if (!least) return
      const surplus = share.owner ? this.#sharesOf(share.owner).length - this.#sharesOf(least).length : 0
      if (share.owner === null || (surplus > 1 && share.low === share.next)) this.#give(share, least)
    }
  }

  #give(share: Share, owner: MemoryReceiver | null): void {
    share.owner = owner
    share.generation++
    share.next = share.low
    if (this.#forgetsLaterAcks) share.settled.clear()
    owner?.wake()
  }

  #hand(share: Share, index: number): Copy {
    const { generation } = share
    const maybeStarted = index < share.seen
    share.seen = Math.max(share.seen, index + 1)
    const ack = async () => {
      if (this.#faults.losesAck() || share.generation !== generation || index < share.low) return
      share.settled.add(index)
      while (share.settled.delete(share.low)) share.low++
    }
    return { ...detached(share.entries[index] as Envelope), maybeStarted, ack, renew: async () => {} }
  }

  #sharesOf(receiver: MemoryReceiver): Share[] {
    return this.#shares.filter(share => share.owner === receiver)
  }
}

class MemoryReceiver implements Receiver {
  readonly #group: Group
  #closed = false
  #waiting: (() => void) | null = null

  constructor(group: Group) {
    this.#group = group
    group.join(this)
  }

  async receive(max: number, signal: AbortSignal): Promise<Copy[]> {
    for (;;) {
      if (this.#closed) throw new IchidoError('CLOSED', 'The receiver is closed.')
      if (signal.aborted) return []
      const copies = this.#group.take(this, max)
      if (copies.length > 0) return copies
      await this.#woken(signal)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#group.leave(this)
    this.wake()
  }

  wake(): void {
    this.#waiting?.()
  }

  #woken(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      const wake = () => {
        signal.removeEventListener('abort', wake)
        this.#waiting = null
        resolve()
      }
      this.#waiting = wake
      signal.addEventListener('abort', wake, { once: true })
    })
  }
}

interface Topic {
  readonly partitions: Envelope[][]
  readonly groups: Map<string, Group>
  /** Messages without a key take turns. */
  turn: number
}

export class MemoryTransport implements Transport {
  readonly name = 'memory'
  readonly facts: TransportFacts
  readonly faults: MemoryFaults
  readonly #options: MemoryTransportOptions
  readonly #topics = new Map<string, Topic>()
  #closed = false

  constructor(options: MemoryTransportOptions) {
    this.#options = options
    const largestBodyBytes = options.largestBodyBytes ?? 256 * 1024
    this.facts = { order: 'contiguous', largestBodyBytes, longestLeaseMs: Number.POSITIVE_INFINITY }
    this.faults = new MemoryFaults((topic, consumer) => this.#group(topic, consumer))
  }

  async publish(messages: readonly Envelope[]): Promise<void> {
    if (this.#closed) throw new IchidoError('CLOSED', 'The transport is closed.')
    for (const { id, body } of messages) {
      if (body.byteLength > this.facts.largestBodyBytes) {
        const text = `The body of ${id} has ${body.byteLength} bytes; this transport takes ${this.facts.largestBodyBytes}.`
        throw new IchidoError('MESSAGE_TOO_LARGE', text)
      }
    }
    const failure = this.faults.failsPublish()
    if (!failure || failure.stored) for (const message of messages) this.#append(message)
    if (failure) throw new IchidoError('TRANSPORT_UNAVAILABLE', 'The broker did not confirm the messages.')
  }

  async subscribe(topic: string, consumer: string): Promise<Receiver> {
    if (this.#closed) throw new IchidoError('CLOSED', 'The transport is closed.')
    return new MemoryReceiver(this.#group(topic, consumer))
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const { groups } of this.#topics.values()) {
      for (const group of groups.values()) for (const receiver of [...group.receivers]) await receiver.close()
    }
  }

  #append(message: Envelope): void {
    const topic = this.#topic(message.topic)
    const count = topic.partitions.length
    const index = message.key === null ? topic.turn++ % count : partitionOf(message.key, count)
    const entries = topic.partitions[index] as Envelope[]
    entries.push(detached(message))
    if (this.faults.repeats()) entries.push(detached(message))
    for (const group of topic.groups.values()) group.wake()
  }

  #topic(name: string): Topic {
    let topic = this.#topics.get(name)
    if (!topic) {
      topic = {
        partitions: Array.from({ length: this.#options.partitions ?? 1 }, () => []),
        groups: new Map(),
        turn: 0,
      }
      this.#topics.set(name, topic)
    }
    return topic
  }

  /** A consumer that comes late starts at the first message of the topic: nothing is lost by coming late. */
  #group(topicName: string, consumer: string): Group {
    const { groups, partitions } = this.#topic(topicName)
    let group = groups.get(consumer)
    if (!group) {
      group = new Group(partitions, this.#options.redelivery === 'prefix', this.faults)
      groups.set(consumer, group)
    }
    return group
  }
}

/** A copy that shares no memory with the original, as if it had gone over a wire. */
function detached(envelope: Envelope): Envelope {
  return { ...envelope, headers: structuredClone(envelope.headers), body: envelope.body.slice() }
}

function partitionOf(key: string, partitions: number): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(key)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash % partitions
}

/** A broker in this process's memory; what it holds is gone with the process. */
export function memoryTransport(options: MemoryTransportOptions = {}): MemoryTransport {
  return new MemoryTransport(options)
}
