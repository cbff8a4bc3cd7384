// What people and programs look at. Counts are exact, and each answer comes from one snapshot.

export const countStates = `select consumer, state, owner is not null as leased, count(*)::int as n from ichido.delivery group by 1, 2, 3`
export const countOpen = `select consumer, count(*)::int as n from ichido.identity where state = 'open' group by consumer`
export const countIdentities = `select consumer, state, count(*)::int as n from ichido.identity group by consumer, state`
export const countKept = `select count(*)::int as n from ichido.kept`
export const selectCounters = `select consumer, sum(sent)::float8 as sent, sum(resent)::float8 as resent, sum(fanned_out)::float8 as "fannedOut", sum(kept)::float8 as kept,
  sum(accepted)::float8 as accepted, sum(custody)::float8 as custody, sum(done)::float8 as done, sum(duplicate)::float8 as duplicate, sum(ignored)::float8 as ignored,
  sum(stale)::float8 as stale, sum(replaced)::float8 as replaced, sum(expired)::float8 as expired, sum(discarded)::float8 as discarded, sum(dead)::float8 as dead,
  sum(repeats)::float8 as repeats, sum(retried)::float8 as retried, sum(purged)::float8 as purged from ichido.counter group by consumer`
export const selectOldest = `select ichido.ms(min(greatest(sent_at, due_at))) as at from ichido.delivery where consumer = $1 and state in ('ready', 'retry', 'suspect', 'version')`
export const selectConsumers = `select consumer, array_agg(topic order by topic) as topics from ichido.subscription group by consumer order by consumer`
export const countProcesses = `select c as consumer, count(*)::int as n, ichido.ms(max(p.beat_at)) as beat_at from ichido.process p, unnest(p.consumers) c where p.lost_at is null and p.left_at is null group by c`

/** An id alone, without an index of its own that every send would pay for: the few pairs of consumer and topic are found by steps. */
export const traceDeliveries = `with recursive pair as (
    (select consumer, topic from ichido.identity order by consumer, topic limit 1)
    union all select n.consumer, n.topic from pair p, lateral (select consumer, topic from ichido.identity
      where (consumer, topic) > (p.consumer, p.topic) order by consumer, topic limit 1) n)
  select i.consumer, i.topic, i.message_id, i.state as ended, ichido.ms(i.accepted_at) as accepted_at, ichido.ms(i.finished_at) as finished_at,
  i.attempts as finished_attempts, d.state, d.owner, d.attempts, d.deaths, d.cycle, ichido.ms(d.due_at) as due_at
  from pair join ichido.identity i on i.consumer = pair.consumer and i.topic = pair.topic and i.message_id = $1
  left join ichido.delivery d on d.id = i.delivery_id and i.state = 'open' order by i.consumer, i.topic`
export const traceKept = `select topic, message_id, ichido.ms(sent_at) as sent_at, ichido.ms(due_at) as due_at from ichido.kept where message_id = $1 order by topic`
export const traceAttempts = `select cycle, attempt, ichido.ms(planned_at) as planned_at, ichido.ms(started_at) as started_at, ichido.ms(ended_at) as ended_at, outcome, code, message, build
  from ichido.attempt where message_id = $1 and consumer = $2 and topic = $3 order by ended_at, id`

const letter = `c.id::float8 as ref, c.consumer, c.topic, c.message_id, c.cycle, c.class, c.code, c.message, c.stack, c.label, c.build, c.attempts, ichido.ms(c.opened_at) as opened_at,
  d.type, d.version, d.key, d.state, d.deaths, d.repeats, ichido.ms(d.sent_at) as sent_at, octet_length(d.body) as body_bytes, d.id::float8 as delivery_id,
  k.type as kept_type, k.version as kept_version, k.key as kept_key, ichido.ms(k.sent_at) as kept_sent_at, octet_length(k.body) as kept_bytes`
const letterSource = `ichido.case c
  left join ichido.identity i on i.consumer = c.consumer and i.topic = c.topic and i.message_id = c.message_id
  left join ichido.delivery d on d.id = i.delivery_id
  left join ichido.kept k on c.consumer = '' and k.topic = c.topic and k.message_id = c.message_id`
const letterFilter = `c.closed_at is null and ($1::text is null or c.consumer = $1) and ($2::text is null or c.message_id = $2) and ($3::text is null or c.code = $3)`
export const selectDeadLetters = `select ${letter} from ${letterSource} where ${letterFilter}
  and (round(extract(epoch from c.opened_at) * 1000), c.id) > ($4::numeric, $5::bigint) order by round(extract(epoch from c.opened_at) * 1000), c.id limit $6`
export const countDeadLetters = `select count(*)::int as n from ichido.case c where ${letterFilter}`
export const countFollowers = `select count(*)::int as n from ichido.delivery where consumer = $1 and key = $2 and key is not null and state not in ('delayed', 'passed')
  and pos > (select pos from ichido.delivery where id = $3)`
export const selectPayload = `select d.headers, d.body from ichido.identity i join ichido.delivery d on d.id = i.delivery_id
  where i.consumer = $1 and i.topic = $2 and i.message_id = $3`
export const selectKeptPayload = `select headers, body from ichido.kept where topic = $1 and message_id = $2`
