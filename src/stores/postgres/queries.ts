// The statements of sending, claiming and settling. Literal limits and `= any(array(…))` instead of joins: with `limit $n` in a named statement
// the generic plan assumes a tenth of the table (12,000 instead of 38,000 messages/s).

/** The clock of the server, or the one that a test passes. */
const now = (parameter: number) => `coalesce($${parameter}::timestamptz, clock_timestamp())`

const columns = `id::float8, consumer, topic, message_id, type, version, key, pos::float8, headers, body, ichido.ms(sent_at) as sent_at,
  ichido.ms(due_at) as due_at, attempts, deaths, cycle, held, replaces`

/** Many messages, all their subscribers: identities decide, deliveries follow in the order of the call. */
export const acceptMessages = `with m as materialized (
    select *, coalesce(given_due, ${now(13)} + given_delay * interval '1 millisecond') as due from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[],
      $6::text[], $7::bytea[], $8::bytea[], $9::timestamptz[], $10::timestamptz[], $11::float8[], $12::text[])
      with ordinality as m(id, topic, type, version, key, headers, body, hash, given_sent, given_due, given_delay, replaces, n)),
  s as materialized (select m.*, sub.consumer from m join ichido.subscription sub on sub.topic = m.topic),
  clash as materialized (
    select s.n from s join ichido.identity i on i.consumer = s.consumer and i.topic = s.topic and i.message_id = s.id
      where i.hash <> s.hash and i.hash <> ''::bytea
    union all select m.n from m join ichido.kept k on k.topic = m.topic and k.message_id = m.id where k.hash <> m.hash),
  i as (insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, delivery_id)
    select consumer, topic, id, hash, 'open', ${now(13)}, nextval('ichido.delivery_id') from s where not exists (select 1 from clash)
    order by consumer, topic, id on conflict do nothing returning consumer, topic, message_id, delivery_id),
  d as (insert into ichido.delivery (id, consumer, topic, message_id, type, version, key, state, due_at, sent_at, headers, body, replaces)
    select i.delivery_id, s.consumer, s.topic, s.id, s.type, s.version, s.key, case when s.due > ${now(13)} then 'delayed' else 'ready' end,
      case when s.due > ${now(13)} then s.due end, coalesce(s.given_sent, ${now(13)}), s.headers, s.body, s.replaces
    from s join i on i.consumer = s.consumer and i.topic = s.topic and i.message_id = s.id order by s.n returning 1),
  k as (insert into ichido.kept (topic, message_id, type, version, key, due_at, sent_at, headers, body, hash, replaces)
    select topic, id, type, version, key, due, coalesce(given_sent, ${now(13)}), headers, body, hash, replaces from m
    where not exists (select 1 from clash) and not exists (select 1 from ichido.subscription sub where sub.topic = m.topic)
    order by n on conflict do nothing returning topic, message_id),
  fan as (select topic, message_id, count(*)::int as n from i group by topic, message_id),
  subscribers as (select topic, count(*)::int as n from ichido.subscription group by topic),
  counted as (insert into ichido.counter (consumer, accepted) select consumer, count(*) from i group by consumer returning 1)
  select coalesce(fan.n, 0) as fan_out, coalesce(subscribers.n, 0) as subscribers, k.topic is not null as newly_kept, exists (select 1 from clash where clash.n = m.n) as clashes
  from m left join fan on fan.topic = m.topic and fan.message_id = m.id left join k on k.topic = m.topic and k.message_id = m.id
  left join subscribers on subscribers.topic = m.topic order by m.n`
/** Ids that a transaction took with other contents after the snapshot of the statement above. */
export const selectLateClash = `select i.message_id from unnest($1::text[], $2::text[], $3::bytea[]) m(topic, id, hash)
  join ichido.identity i on i.topic = m.topic and i.message_id = m.id where i.hash <> m.hash and i.hash <> ''::bytea limit 1`
export const ringBell = `select pg_notify('ichido', '')`

export const subscribersOf = `select consumer from ichido.subscription where topic = $1 order by consumer`
export const insertIdentity = `insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, finished_at, token, delivery_id)
  values ($1, $2, $3, $4, $5, ${now(8)}, case when $5 <> 'open' then ${now(8)} end, $6, $7) on conflict do nothing`
export const selectIdentity = `select hash, state, token::float8, delivery_id::float8, heir from ichido.identity where consumer = $1 and topic = $2 and message_id = $3`
export const lockIdentity = `${selectIdentity} for update`
export const replaceIdentity = `update ichido.identity set state = 'replaced', finished_at = ${now(5)}, heir = $4 where consumer = $1 and topic = $2 and message_id = $3`
export const endIdentity = `update ichido.identity set state = $4, finished_at = ${now(6)}, attempts = $5 where consumer = $1 and topic = $2 and message_id = $3`
export const insertDelivery = `insert into ichido.delivery (id, consumer, topic, message_id, type, version, key, pos, state, due_at, sent_at, headers, body, held, replaces, attempts, claimed_at)
  values ($1, $2, $3, $4, $5, $6, $7, coalesce($8::bigint, nextval('ichido.delivery_pos')), $9, ichido.at($10::float8), coalesce(ichido.at($11::float8), ${now(17)}), $12, $13, $14, $15, $16, ${now(17)})`
export const nextDeliveryId = `select nextval('ichido.delivery_id')::float8 as id`
export const deleteDelivery = `delete from ichido.delivery where id = $1`
export const selectDelivery = `select ${columns}, state, owner, epoch::float8, repeats from ichido.delivery where id = $1`
export const lockDeliveryRow = `${selectDelivery} for update`
export const bumpRepeats = `update ichido.delivery set repeats = repeats + 1 where id = $1`

export const nextEpoch = `select nextval('ichido.epoch')::float8 as epoch`
export const promoteRetries = `update ichido.delivery set state = 'ready' where id = any (array(select id from ichido.delivery
  where consumer = $1 and state in ('delayed', 'retry') and state = 'retry' and due_at <= ${now(2)} order by due_at, id limit 500 for update skip locked))`
export const promoteDelayed = `update ichido.delivery d set state = 'ready', pos = n.pos from (select id, nextval('ichido.delivery_pos') as pos from (
  select id from ichido.delivery where consumer = $1 and state in ('delayed', 'retry') and state = 'delayed' and due_at <= ${now(2)}
  order by due_at, id limit 500 for update skip locked) due) n where d.id = n.id`
export const selectNextDue = `select greatest(0, ichido.ms(due_at) - ichido.ms(${now(2)})) as in_ms from ichido.delivery
  where consumer = $1 and state in ('delayed', 'retry') order by due_at limit 1`

const windows = [1, 10, 100, 400, 1600] as const
export type WindowSize = (typeof windows)[number]

/**
 * Lock the window, judge the holes with a younger snapshot (see ichido.holes), take what stands before them, mark what waits behind them.
 * Rejected: the holes in the statement's own snapshot (two owners of one key, see test/models/claim.ts); the head of each key only (6 messages/s
 * on a hot key); a lane table (a migration for their number, strangers wait for each other).
 */
const claim = (window: WindowSize) => `with w as materialized (
    select id, pos, key, octet_length(body) as bytes from ichido.delivery where consumer = $1 and state = 'ready' and pos >= $2 and owner is null
    and (key is null or key <> all ($4::text[])) and exists (select 1 from ichido.process where incarnation = $3 and lost_at is null and left_at is null)
    order by pos limit ${window} for update of delivery skip locked),
  h as materialized (select * from ichido.holes($1, array(select distinct key from w where key is not null), array(select id from w where key is not null))),
  free as materialized (select w.id, w.pos, w.bytes from w left join h on h.key = w.key where h.key is null or (h.locked and w.pos < h.pos)),
  ok as materialized (select id from (select id, pos, sum(bytes) over (order by pos) as total, row_number() over (order by pos) as nth from free) x
    where nth <= $5 and (nth = 1 or total <= $6)),
  park as (update ichido.delivery set state = 'behind', held = true
    where id = any (array(select w.id from w join h on h.key = w.key where h.waits and w.pos > h.pos)) returning 1),
  e as materialized (select nextval('ichido.epoch') as epoch, ${now(7)} as at from ok limit 1),
  u as (update ichido.delivery set attempts = attempts + 1, owner = $3, epoch = (select epoch from e), claimed_at = (select at from e)
    where id = any (array(select id from ok)) returning ${columns}, ichido.ms(claimed_at) as claimed_at, epoch::float8 as epoch)
  select (select count(*)::int from w) as seen, (select max(pos)::float8 from w) as last_pos, (select count(*)::int from park) as parked,
    nullif(array(select key from h where not locked and not exists (select 1 from w where w.key = h.key and w.pos < h.pos)), '{}') as busy, u.*
  from (select 1) as one left join u on true order by u.pos`
export const claimWindow = Object.fromEntries(windows.map(size => [size, claim(size)])) as Record<WindowSize, string>

export const lockDeliveries = `select 1 from ichido.delivery where id = any ($1::bigint[]) and epoch = $2 and owner is not null order by id for update`
/** Ends a batch in one statement; the count that it returns is the fence. */
export const finishDeliveries = `with f as materialized (select * from unnest($1::bigint[], $3::text[]) f(id, outcome)),
  d as (delete from ichido.delivery where id = any ($1::bigint[]) and epoch = $2 and owner is not null returning id, consumer, topic, message_id, attempts),
  i as (update ichido.identity t set state = f.outcome, finished_at = ${now(9)}, attempts = d.attempts, token = $2 from d join f on f.id = d.id
    where t.consumer = d.consumer and t.topic = d.topic and t.message_id = d.message_id returning 1),
  c as (insert into ichido.counter (consumer, done, duplicate, ignored, stale) values ($4, $5, $6, $7, $8))
  select count(*)::int as ended, (select count(*)::int from i) as identities from d`
export const releaseFollowers = `update ichido.delivery set state = 'ready', held = true where id = any (array(
  select id from ichido.delivery where consumer = $1 and key = $2 and state = 'behind' order by pos limit 1000))`

export const selectSuspects = `select ${columns} from ichido.delivery d where consumer = $1 and state = 'suspect' and state in ('suspect', 'version', 'dead', 'passed')
  and (key is null or not exists (select 1 from ichido.delivery p where p.consumer = d.consumer and p.key = d.key and p.key is not null
    and p.state not in ('delayed', 'passed') and p.pos < d.pos))
  order by pos limit 1 for update of d skip locked`
export const takeSuspect = `update ichido.delivery set state = 'ready', solo = true, attempts = attempts + 1, owner = $2, epoch = nextval('ichido.epoch'), claimed_at = ${now(3)}
  where id = $1 returning epoch::float8 as epoch, ichido.ms(claimed_at) as claimed_at`
export const hasSuspects = `select c.name from unnest($1::text[]) c(name) where exists (select 1 from ichido.delivery d
  where d.consumer = c.name and d.state = 'suspect' and d.state in ('suspect', 'version', 'dead', 'passed'))`
export const isAlive = `select 1 from ichido.process where incarnation = $1 and lost_at is null and left_at is null`

export const deferRetry = `update ichido.delivery set state = 'retry', due_at = ${now(4)} + $3::float8 * interval '1 millisecond', held = true, owner = null, epoch = 0, solo = false
  where id = $1 and epoch = $2 and owner is not null`
export const deferDead = `update ichido.delivery set state = $3, held = true, owner = null, epoch = 0, solo = false where id = $1 and epoch = $2 and owner is not null`
export const deferVersion = `update ichido.delivery set state = 'version', held = true, owner = null, epoch = 0, solo = false, attempts = attempts - 1
  where id = $1 and epoch = $2 and owner is not null`
export const releaseDelivery = `update ichido.delivery set state = case when solo then 'suspect' else 'ready' end, owner = null, epoch = 0, solo = false,
  attempts = attempts - 1 where id = $1 and epoch = $2 and owner is not null`
export const lockDelivery = `select 1 from ichido.delivery where id = $1 and epoch = $2 and owner is not null for update`
export const insertAttempt = `insert into ichido.attempt (consumer, topic, message_id, cycle, attempt, planned_at, started_at, ended_at, outcome, class, code, message, build)
  values ($1, $2, $3, $4, $5, ichido.at($6::float8), greatest(ichido.at($7::float8), ${now(13)} - $8::float8 * interval '1 millisecond'), ${now(13)}, $9, $10, $11, $12, $14)`
export const selectWaitingHeir = `select id::float8, message_id, key from ichido.delivery where consumer = $1 and topic = $2 and replaces = $3 and replaces is not null
  order by pos limit 1 for update`
export const inheritPlace = `update ichido.delivery set pos = $2, held = true, state = case when state = 'behind' then 'ready' else state end where id = $1`
export const openCase = `insert into ichido.case (consumer, topic, message_id, cycle, class, code, message, stack, label, build, attempts, opened_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ${now(12)}) on conflict do nothing`
export const closeCase = `update ichido.case set closed_at = ${now(5)}, closed_as = $4 where consumer = $1 and topic = $2 and message_id = $3 and closed_at is null`
export const selectOpenCaseCode = `select code from ichido.case where consumer = $1 and topic = $2 and message_id = $3 and closed_at is null`

export const lockKeys = `select pg_advisory_xact_lock(h) from (select distinct hashtextextended($1 || chr(10) || k, 0) as h from unnest($2::text[]) k order by 1) x`
export const selectFirstOfKey = `select id::float8, pos::float8, state, owner from ichido.delivery
  where consumer = $1 and key = $2 and key is not null and state not in ('delayed', 'passed') order by pos limit 1`
export const selectWatermark = `select ichido.ms(at) as at from ichido.watermark where consumer = $1 and topic = $2`
export const advanceGuard = `insert into ichido.guard (scope, entity, version, tie) values ($1, $2, $3, $4)
  on conflict (scope, entity) do update set version = excluded.version, tie = excluded.tie
  where (excluded.version, excluded.tie) > (guard.version, guard.tie)`
export const insertAudit = `insert into ichido.audit (at, actor, reason, action, target, details) values (${now(6)}, $1, $2, $3, $4, $5)`
export const redriveDelivery = `update ichido.delivery set state = 'ready', pos = case when state = 'passed' then nextval('ichido.delivery_pos') else pos end, attempts = 0,
  deaths = 0, lost = 0, cycle = cycle + 1, due_at = null, held = true, owner = null, epoch = 0, solo = false where id = $1`
export const passDelivery = `update ichido.delivery set state = 'passed' where id = $1`
export const addCounters = `insert into ichido.counter (consumer, sent, resent, fanned_out, kept, accepted, custody, done, duplicate, ignored, stale, replaced,
  expired, discarded, dead, repeats, retried, purged) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`
export const delayDelivery = `update ichido.delivery set due_at = ${now(3)} + $2::float8 * interval '1 millisecond' where id = $1`
export const discardIdentity = `update ichido.identity set state = 'discarded', finished_at = ${now(4)} where consumer = $1 and topic = $2 and message_id = $3`
