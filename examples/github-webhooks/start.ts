/**
 * The main job on real input: GitHub's own example payloads, delivered over HTTP at least once and in any order, while a dependency fails and
 * the worker is killed. Prints the books, and exits 0 only when nothing was lost, doubled or put out of order.
 *
 *   node examples/github-webhooks/start.ts [--repositories 100] [--seed 1]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { check, printBooks } from './check.ts'
import { createDeliveries, seeded, shuffle } from './deliveries.ts'
import { deliverAll } from './github.ts'
import { startEndpoint, startWorker } from './processes.ts'
import { Progress } from './progress.ts'
import { applyDirectly } from './reference.ts'
import { createTables } from './tables.ts'

const { values } = parseArgs({
  options: { repositories: { type: 'string', default: '100' }, seed: { type: 'string', default: '1' } },
})
const repositories = Number(values.repositories)
const random = seeded(Number(values.seed))
const startedAt = performance.now()
const folder = mkdtempSync(join(tmpdir(), 'ichido-github-'))
const secret = 'an example secret'

/** Fails for a while in the middle of the run. */
const licenceService = { isDown: false, refused: 0 }
const dependency = createServer((_, response) => {
  if (licenceService.isDown) licenceService.refused++
  response.writeHead(licenceService.isDown ? 503 : 200).end('MIT')
})

function failForAWhile(): void {
  licenceService.isDown = true
  setTimeout(() => {
    licenceService.isDown = false
  }, 3_000)
}

async function main(): Promise<boolean> {
  await new Promise<void>(resolve => dependency.listen(0, '127.0.0.1', resolve))
  const { port } = dependency.address() as { port: number }
  const files = { database: join(folder, 'app.db'), journal: join(folder, 'accepted.jsonl') }
  const environment = {
    GITHUB_WEBHOOKS_DB: files.database,
    GITHUB_WEBHOOKS_JOURNAL: files.journal,
    GITHUB_WEBHOOKS_LICENCES: `http://127.0.0.1:${port}/licence`,
    GITHUB_WEBHOOKS_SECRET: secret,
  }
  createTables(files.database)
  const deliveries = createDeliveries(repositories, secret)
  const expected = applyDirectly(deliveries)
  const requests = withFaults(deliveries)
  console.log(
    `${deliveries.length} deliveries for ${repositories} repositories, ${requests.length} requests, seed ${values.seed}`,
  )

  const worker = await startWorker(environment)
  const endpoint = await startEndpoint(environment)
  const progress = new Progress(requests.length)
  const answers = await deliverAll(`http://127.0.0.1:${endpoint.port}/webhooks`, requests, done => {
    progress.show(done)
    if (done === Math.floor(requests.length * 0.3)) failForAWhile()
    worker.killAt(done / requests.length)
  })
  progress.end()
  const idleAfterMs = await worker.untilIdle(files.database)
  await endpoint.stop()
  const kills = await worker.stop()
  const result = await check({ files, deliveries, expected, answers })
  printBooks(result, {
    kills,
    refused: licenceService.refused,
    idleAfterMs,
    seconds: (performance.now() - startedAt) / 1_000,
  })
  return result.faults.length === 0
}

/** A third comes twice; one in a hundred comes also unsigned, and one with a body that was cut on its way but signed. */
function withFaults(deliveries: ReturnType<typeof createDeliveries>) {
  const twice = deliveries.filter(() => random() < 1 / 3)
  const unsigned = deliveries
    .filter(() => random() < 0.01)
    .map(delivery => ({ ...delivery, signature: '', kind: 'unsigned' as const }))
  const corrupt = deliveries
    .filter(() => random() < 0.01)
    .map(delivery => ({ ...delivery, body: delivery.body.slice(0, -20), kind: 'corrupt' as const }))
  return shuffle([...deliveries, ...twice, ...unsigned, ...corrupt], random)
}

try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  dependency.closeAllConnections()
  dependency.close()
  rmSync(folder, { recursive: true, force: true })
}
// Children that were left by an error end with this process.
process.exit()
