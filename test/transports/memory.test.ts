import { describe, expect, it } from 'vitest'
import type { Copy, Envelope, Receiver } from '../../src/contracts/transport.ts'
import { transportSuite } from '../../src/testing/index.ts'
import { type MemoryTransportOptions, memoryTransport } from '../../src/transports/memory.ts'

for (const [name, options] of Object.entries({
  'one partition': {},
  'four partitions': { partitions: 4 },
} satisfies Record<string, MemoryTransportOptions>)) {
  transportSuite(
    {
      name: `memory with ${name}`,
      async create() {
        const transport = memoryTransport(options)
        return {
          transport,
          takeOwnership: async (topic, consumer) => transport.faults.moveOwnership(topic, consumer),
          close: () => transport.close(),
        }
      },
    },
    { describe, it, expect },
  )
}

const signal = new AbortController().signal

function envelope(id: string, key: string | null = 'k'): Envelope {
  return { id, topic: 't', type: 't', version: 1, key, headers: {}, sentAt: 1, dueAt: null, body: Uint8Array.of(1) }
}

function seen(copies: readonly Copy[]): string[] {
  return copies.map(copy => `${copy.id}${copy.maybeStarted ? '?' : ''}`)
}

async function opened(options: MemoryTransportOptions, ...ids: string[]) {
  const transport = memoryTransport(options)
  await transport.publish(ids.map(id => envelope(id)))
  return { transport, subscribe: (): Promise<Receiver> => transport.subscribe('t', 'c') }
}

describe('the faults of the memory transport', () => {
  it('loses acks, and the copies come again to the next owner', async () => {
    const { transport, subscribe } = await opened({}, 'm1', 'm2', 'm3')
    const first = await subscribe()
    transport.faults.loseNextAcks(1)
    for (const copy of await first.receive(3, signal)) await copy.ack()
    await first.close()
    expect(seen(await (await subscribe()).receive(3, signal))).toEqual(['m1?'])
  })

  it('as a log gives the acked copies behind the first unsettled one again', async () => {
    const { transport, subscribe } = await opened({ redelivery: 'prefix' }, 'm1', 'm2', 'm3', 'm4')
    const first = await subscribe()
    const copies = await first.receive(3, signal)
    transport.faults.loseNextAcks(1)
    await copies[1]?.ack()
    await copies[2]?.ack()
    await copies[0]?.ack()
    await first.close()
    expect(seen(await (await subscribe()).receive(9, signal))).toEqual(['m2?', 'm3?', 'm4'])
  })

  it('moves ownership while the old owner works on', async () => {
    const { transport, subscribe } = await opened({}, 'm1', 'm2')
    const zombie = await subscribe()
    const old = await zombie.receive(1, signal)
    const owner = await subscribe()
    transport.faults.moveOwnership('t', 'c')
    expect(seen(await owner.receive(9, signal))).toEqual(['m1?', 'm2'])
    await old[0]?.ack()
    transport.faults.moveOwnership('t', 'c')
    expect(seen(await zombie.receive(9, signal))).toEqual(['m1?', 'm2?'])
  })

  it('starts again at the only receiver', async () => {
    const { transport, subscribe } = await opened({}, 'm1', 'm2')
    const only = await subscribe()
    await only.receive(1, signal)
    transport.faults.moveOwnership('t', 'c')
    expect(seen(await only.receive(9, signal))).toEqual(['m1?', 'm2'])
  })

  it('kills an owner, whose acks are dropped and who receives nothing more', async () => {
    const { transport, subscribe } = await opened({}, 'm1', 'm2')
    const dead = await subscribe()
    const heir = await subscribe()
    const old = await dead.receive(1, signal)
    transport.faults.killOwner('t', 'c')
    await old[0]?.ack()
    expect(seen(await heir.receive(9, signal))).toEqual(['m1?', 'm2'])
    await heir.close()
    const abort = new AbortController()
    const waiting = dead.receive(9, abort.signal)
    abort.abort()
    expect(await waiting).toEqual([])
  })

  it('stores messages twice', async () => {
    const { transport, subscribe } = await opened({})
    transport.faults.repeatNext(1)
    await transport.publish([envelope('m1'), envelope('m2')])
    expect(seen(await (await subscribe()).receive(9, signal))).toEqual(['m1', 'm1', 'm2'])
  })

  it('fails to publish, with and without having stored the messages', async () => {
    const { transport, subscribe } = await opened({})
    transport.faults.failNextPublishes(1)
    await expect(transport.publish([envelope('m1')])).rejects.toMatchObject({ retryable: true })
    transport.faults.failNextPublishes(1, true)
    await expect(transport.publish([envelope('m2')])).rejects.toMatchObject({ code: 'TRANSPORT_UNAVAILABLE' })
    await transport.publish([envelope('m3')])
    expect(seen(await (await subscribe()).receive(9, signal))).toEqual(['m2', 'm3'])
  })
})

describe('the partitions of the memory transport', () => {
  it('are shared by the receivers, and keep a key in one', async () => {
    const transport = memoryTransport({ partitions: 8 })
    const receivers = [await transport.subscribe('t', 'c'), await transport.subscribe('t', 'c')]
    await transport.publish(Array.from({ length: 80 }, (_, index) => envelope(`${index}`, `k${index % 16}`)))
    const received = await Promise.all(receivers.map(receiver => receiver.receive(100, signal)))
    const keys = received.map(copies => new Set(copies.map(copy => copy.key)))
    expect(received.flat().length).toBe(80)
    expect([...(keys[0] ?? [])].filter(key => keys[1]?.has(key))).toEqual([])
    expect(keys.every(own => own.size > 0)).toBe(true)
  })

  it('wait with their hand-over until the owner has settled what it has', async () => {
    const transport = memoryTransport({ partitions: 2 })
    const first = await transport.subscribe('t', 'c')
    await transport.publish(['a', 'b', 'c', 'd'].map(id => envelope(id, null)))
    const copies = await first.receive(9, signal)
    const second = await transport.subscribe('t', 'c')
    await transport.publish([envelope('e', null), envelope('f', null)])
    const waiting = second.receive(9, signal)
    for (const copy of copies) await copy.ack()
    const rest = await first.receive(9, signal)
    expect([...seen(rest), ...seen(await waiting)].sort()).toEqual(['e', 'f'])
  })
})
