// What people and programs look at. Counts are exact, and each answer comes from one snapshot.

export const countStates = `select consumer, state, (owner is not null) as leased, count(*) as n from ichido_delivery group by consumer, state, leased`
export const countOpen = `select consumer, count(*) as n from ichido_identity where state = 'open' group by consumer`
export const countIdentities = `select consumer, state, count(*) as n from ichido_identity group by consumer, state`
export const countKept = `select count(*) as n from ichido_kept`
export const selectCounters = `select * from ichido_counter`
export const selectOldest = `select min(max(sent_at, coalesce(due_at, 0))) as at from ichido_delivery where consumer = ? and state in ('ready', 'retry', 'suspect', 'version')`
export const selectConsumers = `select consumer, json_group_array(topic) as topics from ichido_subscription group by consumer order by consumer`
export const countProcesses = `select c.value as consumer, count(*) as n, max(p.beat_at) as beat_at from ichido_process p, json_each(p.consumers) c
  where p.lost_at is null and p.left_at is null group by c.value`

export const traceDeliveries = `select i.consumer, i.topic, i.message_id, i.state as ended, i.accepted_at, i.finished_at, i.attempts as finished_attempts,
  d.state, d.owner, d.attempts, d.deaths, d.cycle, d.due_at
  from ichido_identity i left join ichido_delivery d on d.id = i.delivery_id and i.state = 'open' where i.message_id = ? order by i.consumer, i.topic`
export const traceKept = `select topic, message_id, sent_at, due_at from ichido_kept where message_id = ? order by topic`
export const traceAttempts = `select cycle, attempt, planned_at, started_at, ended_at, outcome, code, message, build from ichido_attempt
  where message_id = ? and consumer = ? and topic = ? order by ended_at, rowid`

const letter = `c.id as ref, c.consumer, c.topic, c.message_id, c.cycle, c.class, c.code, c.message, c.stack, c.label, c.build, c.attempts, c.opened_at,
  d.type, d.version, d.key, d.state, d.deaths, d.repeats, d.sent_at, length(d.body) as body_bytes,
  k.type as kept_type, k.version as kept_version, k.key as kept_key, k.sent_at as kept_sent_at, length(k.body) as kept_bytes`
const letterSource = `ichido_case c
  left join ichido_identity i on i.consumer = c.consumer and i.topic = c.topic and i.message_id = c.message_id
  left join ichido_delivery d on d.id = i.delivery_id
  left join ichido_kept k on c.consumer = '' and k.topic = c.topic and k.message_id = c.message_id`
const letterFilter = `c.closed_at is null and (?1 is null or c.consumer = ?1) and (?2 is null or c.message_id = ?2) and (?3 is null or c.code = ?3)`
export const selectDeadLetters = `select ${letter} from ${letterSource} where ${letterFilter}
  and (c.opened_at, c.id) > (?4, ?5) order by c.opened_at, c.id limit ?6`
export const countDeadLetters = `select count(*) as n from ichido_case c where ${letterFilter}`
export const countFollowers = `select count(*) as n from ichido_delivery indexed by ichido_delivery_key
  where consumer = ? and key = ? and key is not null and state not in ('delayed', 'passed') and pos > (select pos from ichido_delivery where id = ?)`
export const selectPayload = `select d.headers, d.body from ichido_identity i join ichido_delivery d on d.id = i.delivery_id
  where i.consumer = ? and i.topic = ? and i.message_id = ?`
export const selectKeptPayload = `select headers, body from ichido_kept where topic = ? and message_id = ?`
