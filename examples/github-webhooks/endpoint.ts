/** The HTTP endpoint that GitHub calls. It answers 202 within milliseconds, whatever the consumers do. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { type Ichido, isIchidoError, start } from '../../src/index.ts'
import { extract } from './extract.ts'
import config from './ichido.config.ts'
import { webhook } from './messages.ts'

const MAX_BODY_BYTES = 25 * 1024 * 1024
const secret = process.env.GITHUB_WEBHOOKS_SECRET ?? ''

function isSigned(body: Buffer, signature: string | undefined): boolean {
  const expected = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
  const given = Buffer.from(signature ?? '')
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function createApp(
  ichido: Pick<Ichido, 'send'>,
  accepted: (delivery: string, repository: string | null) => void,
): Hono {
  const app = new Hono()
  app.post('/webhooks', bodyLimit({ maxSize: MAX_BODY_BYTES }), async context => {
    const body = Buffer.from(await context.req.arrayBuffer())
    if (!isSigned(body, context.req.header('x-hub-signature-256'))) return context.text('The signature is wrong.', 401)
    const id = context.req.header('x-github-delivery')
    const event = context.req.header('x-github-event')
    if (!id || !event) return context.text('X-GitHub-Delivery or X-GitHub-Event is missing.', 400)
    let data: ReturnType<typeof extract>
    try {
      data = extract(event, JSON.parse(body.toString('utf8')))
    } catch {
      // Nothing is lost by the refusal: GitHub keeps the delivery and shows it as failed, and nobody here could do anything with it.
      return context.text('The body is not JSON.', 400)
    }
    try {
      const { duplicate } = await ichido.send(webhook, data, { id })
      if (!duplicate) accepted(id, data.repository)
      return context.json({ id, duplicate }, 202)
    } catch (error) {
      if (!isIchidoError(error)) throw error
      // A retryable failure is answered so that GitHub's redelivery helps; a reused id will never be right.
      return context.json({ code: error.code, hint: error.hint }, error.retryable ? 503 : 422)
    }
  })
  return app
}

const journal = createWriteStream(process.env.GITHUB_WEBHOOKS_JOURNAL ?? '/dev/null', { flags: 'a' })
const ichido = await start(config, { consume: false })
const app = createApp(ichido, (delivery, repository) => journal.write(`${JSON.stringify([repository, delivery])}\n`))
const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.env.PORT ?? 0) }, ({ port }) => {
  process.send?.({ port })
  if (!process.send) console.log(`Listening on http://127.0.0.1:${port}/webhooks`)
})

process.once('SIGTERM', async () => {
  server.close()
  await ichido.stop()
  journal.end(() => process.exit(0))
})
// Whoever started this process is gone: nothing must outlive the example.
process.once('disconnect', () => process.exit(1))
