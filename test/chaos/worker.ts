/**
 * One process of a chaos run: it produces its share, and consumes whatever is there. It is killed and started again; its journal tells it
 * where it was. Every intent is on the disk before its send, every confirmation is written after the answer.
 */
import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import pg from 'pg'
import { z } from 'zod'
import { defineConsumer, defineIchido, defineMessage, type Ichido, PermanentError, start } from '../../src/index.ts'
import { postgres } from '../../src/stores/postgres/store.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { type ChaosSettings, type Intent, leaseMs, plan } from './settings.ts'

const settings = JSON.parse(process.env.ICHIDO_CHAOS ?? '') as ChaosSettings
const { folder, producer } = settings
const isPostgres = settings.store === 'postgres'
const pool = isPostgres
  ? new pg.Pool({ connectionString: settings.place, max: 10, connectionTimeoutMillis: 3_000 })
  : null
const store = (pool ? postgres(pool) : sqlite(settings.place)) as ReturnType<typeof sqlite>
const mark = (p: number) => (isPostgres ? `$${p}` : '?')

const chaos = defineMessage({
  type: 'chaos',
  schema: z.object({ key: z.string().nullable(), seq: z.number(), kind: z.enum(['ok', 'fail', 'dead', 'kill']) }),
  key: ({ key }) => key,
})

function die(): void {
  appendFileSync(`${folder}/inside.log`, `${producer}\n`)
  process.kill(process.pid, 'SIGKILL')
}

const effects = defineConsumer({
  store,
  name: 'effects',
  messages: [chaos],
  retry: { baseMs: 20, capMs: 500, maxAttempts: 20 },
  async handle({ message, tx, attempt }) {
    const { key, seq, kind } = message.data
    await tx.run(`insert into effect (id, key, seq) values (${mark(1)}, ${mark(2)}, ${mark(3)})`, message.id, key, seq)
    if (kind === 'kill' || (attempt === 1 && Math.random() < 0.0008)) die()
    if (kind === 'dead') throw new PermanentError('dead on purpose', { code: 'ON_PURPOSE' })
    if (kind === 'fail' && attempt === 1) throw new Error('fails once')
  },
})

const config = defineIchido({ store, consumers: [effects], leaseMs, beatMs: 250, pollMs: 100, shutdownMs: 10_000 })

async function startPatiently(): Promise<Ichido> {
  for (;;) {
    try {
      return (await start(config)) as unknown as Ichido
    } catch (error) {
      // The database may be down at the start of a life.
      appendFileSync(`${folder}/starts.log`, `${(error as Error).message}\n`)
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  }
}

const journalPath = `${folder}/journal-${producer}.log`
const lines = existsSync(journalPath) ? readFileSync(journalPath, 'utf8').split('\n') : []
const confirmed = new Set(lines.filter(line => line.startsWith('confirmed ')).map(line => line.split(' ')[1]))
const journal = openSync(journalPath, 'a')

function write(what: 'intent' | 'confirmed' | 'duplicate', intents: readonly Intent[]): void {
  if (intents.length === 0) return
  writeSync(journal, intents.map(intent => `\n${what} ${intent.id} ${JSON.stringify(intent)}`).join(''))
  fsyncSync(journal)
}

/** Sends a run of messages in their order, again and again with the same ids until every answer is there. */
async function send(ichido: Ichido, intents: readonly Intent[], joined: boolean): Promise<void> {
  for (;;) {
    try {
      if (joined) {
        await ichido.transaction(async ({ tx, send: sendHere }) => {
          for (const { id, key, seq, kind } of intents) {
            await tx.run(`insert into business (id) values (${mark(1)})`, id)
            await sendHere(chaos, { key, seq, kind }, { id })
          }
        })
        return
      }
      const results = await Promise.all(
        intents.map(({ id, key, seq, kind }) => ichido.send(chaos, { key, seq, kind }, { id })),
      )
      write(
        'duplicate',
        intents.filter((_, index) => results[index]?.duplicate),
      )
      return
    } catch (error) {
      appendFileSync(`${folder}/sends.log`, `${(error as { code?: string }).code}\n`)
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
}

const ichido = await startPatiently()
ichido.on('commitResolved', () => appendFileSync(`${folder}/unknown.log`, `${producer}\n`))
let stopping = false
process.once('SIGTERM', async () => {
  stopping = true
  await ichido.stop()
  await pool?.end()
  closeSync(journal)
  process.exit(0)
})
process.once('disconnect', () => process.exit(1))

const open = plan(producer, settings.messages, settings.seed).filter(intent => !confirmed.has(intent.id))
for (let at = 0; at < open.length && !stopping; at += 25) {
  const run = open.slice(at, at + 25)
  write('intent', run)
  await send(ichido, run, Math.floor(at / 25) % 2 === 0)
  write('confirmed', run)
}
process.send?.('produced')
