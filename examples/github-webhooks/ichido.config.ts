import { defineConsumer, defineIchido, PermanentError, TransientError } from '../../src/index.ts'
import { sqlite } from '../../src/stores/sqlite/store.ts'
import { webhook } from './messages.ts'

const store = sqlite(process.env.GITHUB_WEBHOOKS_DB ?? 'data/github-webhooks.db')
const licences = process.env.GITHUB_WEBHOOKS_LICENCES

/** The newest state of each issue and pull request. GitHub delivers in any order: the version guard decides, not the order. */
export const mirror = defineConsumer({
  store,
  name: 'mirror',
  messages: [webhook],
  order: 'none',
  onDead: 'pass',
  retry: { baseMs: 50, capMs: 2_000, maxAttempts: 20 },
  handle({ message, tx }) {
    const { action, repository, subject } = message.data
    if (!subject || !repository) return undefined
    if (!subject.updatedAt)
      throw new PermanentError(`The ${subject.kind} has no updated_at.`, { class: 'format', code: 'NO_VERSION' })
    const entity = `${repository}/${subject.kind}/${subject.number}`
    // `updated_at` has a resolution of a second: the delivery's id breaks ties, so that every order of arrival ends in the same state.
    if (!tx.advance(entity, subject.updatedAt, message.id)) return 'stale'
    const deleted = action === 'deleted' || action === 'transferred' ? 1 : 0
    tx.run(
      `insert into mirror (entity, title, state, updated_at, deleted) values (?, ?, ?, ?, ?) on conflict (entity) do update set
         title = excluded.title, state = excluded.state, updated_at = excluded.updated_at, deleted = excluded.deleted`,
      ...[entity, subject.title, subject.state, subject.updatedAt, deleted],
    )
    tx.run('insert into mirror_effect (delivery) values (?)', message.id)
    return undefined
  },
})

/** A log for each repository, in the order in which the endpoint took the events. */
export const repositoryLog = defineConsumer({
  store,
  name: 'repository-log',
  messages: [webhook],
  retry: { baseMs: 50, capMs: 2_000, maxAttempts: 20 },
  async prepare({ message, signal }) {
    if (message.data.event !== 'release' || !licences) return null
    const answer = await fetch(licences, { signal })
    if (!answer.ok)
      throw new TransientError(`The licence service answered ${answer.status}.`, { code: `HTTP_${answer.status}` })
    return answer.text()
  },
  handle({ message, prepared, tx }) {
    const { event, action, repository } = message.data
    tx.run(
      'insert into repository_log (repository, delivery, event, action, licence) values (?, ?, ?, ?, ?)',
      ...[repository, message.id, event, action, prepared],
    )
  },
})

export default defineIchido({ store, consumers: [mirror, repositoryLog], leaseMs: 1_500, beatMs: 300, pollMs: 250 })
