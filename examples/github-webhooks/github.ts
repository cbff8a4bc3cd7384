import { Agent, request } from 'node:http'
import type { Delivery } from './deliveries.ts'
import { sign } from './deliveries.ts'

const CONNECTIONS = 48
const secret = 'an example secret'

export interface Answers {
  accepted: number
  duplicates: number
  /** Unsigned ones that were refused with 401, cut ones that were refused with 400. */
  refused: number
  /** Anything else: the endpoint was wrong. */
  readonly unexpected: string[]
}

/** Plays GitHub: many connections at once, and a request that fails for a moment is made again. */
export async function deliverAll(
  url: string,
  deliveries: readonly Delivery[],
  onDone: (done: number) => void,
): Promise<Answers> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const answers: Answers = { accepted: 0, duplicates: 0, refused: 0, unexpected: [] }
  let next = 0
  let done = 0
  const lane = async () => {
    while (next < deliveries.length) {
      const delivery = deliveries[next++] as Delivery
      judge(answers, delivery, await post(agent, url, delivery))
      onDone(++done)
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane))
  agent.destroy()
  return answers
}

function judge(answers: Answers, delivery: Delivery, { status, text }: { status: number; text: string }): void {
  const wanted = { good: 202, unsigned: 401, corrupt: 400 }[delivery.kind]
  if (status !== wanted)
    answers.unexpected.push(`${delivery.id} (${delivery.kind}) was answered ${status}: ${text.slice(0, 100)}`)
  else if (status !== 202) answers.refused++
  else if (JSON.parse(text).duplicate) answers.duplicates++
  else answers.accepted++
}

async function post(agent: Agent, url: string, delivery: Delivery): Promise<{ status: number; text: string }> {
  for (let tries = 1; ; tries++) {
    const answer = await postOnce(agent, url, delivery)
    if (answer.status !== 503 || tries === 10) return answer
    await new Promise(resolve => setTimeout(resolve, 50 * tries))
  }
}

function postOnce(
  agent: Agent,
  url: string,
  { id, event, body, signature, kind }: Delivery,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-github-delivery': id,
      'x-github-event': event,
      // A body that was cut by a faulty sender is signed as it is.
      'x-hub-signature-256': kind === 'corrupt' ? sign(body, secret) : signature,
    }
    const call = request(url, { method: 'POST', agent, headers }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    call.on('error', reject)
    call.end(body)
  })
}
