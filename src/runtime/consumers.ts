import { hash } from 'node:crypto'
import type { Consumer } from '../consume/consumer.ts'
import type { RunningConsumer } from '../consume/running.ts'
import type { Clock } from '../contracts/clock.ts'
import { defaults } from '../contracts/limits.ts'
import type { AnyMessageDefinition } from '../contracts/schema.ts'
import type { Subscription } from '../contracts/store.ts'
import type { IchidoConfig } from './config.ts'
import type { Gate } from './gate.ts'
import { Lanes } from './lanes.ts'
import { createLog } from './log.ts'
import { Receiving, routeOf } from './receiving.ts'

/** One subscription for each topic of a consumer. The fingerprint covers what may only change through `migrate`. */
export function subscriptionsOf(consumer: Consumer): Subscription[] {
  const topics = [...new Set(consumer.messages.map(message => message.topic))].sort()
  const contract = JSON.stringify({ topics, order: consumer.order, onDead: consumer.onDead, grade: 'effectively-once' })
  const fingerprint = hash('sha256', contract).slice(0, 16)
  return topics.map(topic => ({
    consumer: consumer.name,
    topic,
    types: consumer.messages.filter(message => message.topic === topic).map(message => message.type),
    fingerprint,
  }))
}

/** The newest version of each type that the consumer's code knows. */
export function knownVersions(consumer: Consumer): Record<string, number> {
  return Object.fromEntries(consumer.messages.map(message => [message.type, message.version]))
}

interface Workshop {
  // biome-ignore lint/suspicious/noExplicitAny: what the store hands out does not matter here
  readonly config: IchidoConfig<any, any>
  readonly consumers: readonly Consumer[]
  readonly clock: Clock
  readonly gate: Gate
  readonly signal: AbortSignal
  readonly owner: () => string
  readonly emit: RunningConsumer['emit']
  readonly encode: RunningConsumer['encode']
  readonly onStep: RunningConsumer['onStep']
}

interface Work {
  readonly lanes: Lanes[]
  readonly receiving: Receiving[]
}

/** For each consumer its lanes on the store's queue, and what it receives of routed topics. */
export function createWork(shop: Workshop): Work {
  const { config, clock } = shop
  const {
    build,
    pollMs = defaults.pollMs,
    log = createLog(
      line => process.stderr.write(line),
      () => clock.now(),
    ),
  } = config.options
  const lanes: Lanes[] = []
  const receiving: Receiving[] = []
  for (const consumer of shop.consumers) {
    const definitions = new Map<string, AnyMessageDefinition>(consumer.messages.map(message => [message.type, message]))
    const running: RunningConsumer = {
      consumer,
      store: consumer.store,
      clock,
      log,
      definitions,
      failures: {
        retry: { ...defaults.retry, ...consumer.retry },
        onDead: consumer.onDead,
        classify: consumer.classify,
        random: () => clock.random(),
      },
      timeoutMs: consumer.timeoutMs ?? defaults.timeoutMs,
      build: build ?? null,
      signal: shop.signal,
      encode: shop.encode,
      emit: shop.emit,
      onStep: shop.onStep,
    }
    const settings = {
      concurrency: consumer.concurrency ?? consumer.store.facts.concurrency,
      batch: consumer.batch ?? defaults.batch,
      pollMs,
      owner: shop.owner,
    }
    lanes.push(new Lanes(running, shop.gate, settings))
    const { transports = {}, routes = {} } = config.options
    for (const topic of new Set(consumer.messages.map(message => message.topic))) {
      const route = routeOf(routes, topic)
      const transport = route === null ? undefined : transports[route]
      if (transport) receiving.push(new Receiving(running, transport, topic, shop.gate))
    }
  }
  return { lanes, receiving }
}
