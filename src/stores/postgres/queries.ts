// The statements of sending, claiming and settling. Literal limits and `= any(array(…))` instead of joins: with `limit $n` in a named statement
// the generic plan assumes a tenth of the table (12,000 instead of 38,000 messages/s).

/** The clock of the server, or the one that a test passes. */
const now = (parameter: number) => `coalesce($${parameter}::timestamptz, clock_timestamp())`

const columns = `id::float8, consumer, topic, message_id, type, version, key, pos::float8, headers, body, ichido.ms(sent_at) as sent_at,
  ichido.ms(due_at) as due_at, attempts, deaths, cycle, held, replaces`

/** Many messages, all their subscribers: identities decide, deliveries follow in the order of the call (migrations/002-accept.sql). */
export const acceptMessages = `select fan_out, subscribers, kept, reused from ichido.accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
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
  where consumer = $1 and state in ('delayed', 'retry') and state = 'retry' and due_at <= ${now(2)} order by due_at limit 500 for update skip locked))`
/** What is due at the same time enters the order as it was sent. Materialised: as the inner side of a join the places would be taken anew for each row, in the order of the other side. */
export const promoteDelayed = `with due as materialized (select id from ichido.delivery where consumer = $1 and state in ('delayed', 'retry')
    and state = 'delayed' and due_at <= ${now(2)} order by due_at, pos limit 500 for update skip locked),
  n as materialized (select id, nextval('ichido.delivery_pos') as pos from due)
  update ichido.delivery d set state = 'ready', pos = n.pos from n where d.id = n.id`
export const selectNextDue = `select greatest(0, ichido.ms(due_at) - ichido.ms(${now(2)})) as in_ms from ichido.delivery
  where consumer = $1 and state in ('delayed', 'retry') order by due_at limit 1`

/** One window of a claim, a batch's lock and its end: functions with pinned plans (migrations/003-claim-and-settle.sql). */
export const claimWindow = `select * from ichido.claim($1, $2, $3, $4, $5, $6, $7, $8)`
export const lockDeliveries = `select ichido.lock_mine($1, $2)::int as mine`
export const finishDeliveries = `select ichido.finish($1, $2, $3, $4, $5, $6, $7, $8)::int as ended`
export const releaseFollowers = `select ichido.release_followers($1, $2)`

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
export const discardKept = `delete from ichido.kept where topic = $1 and message_id = $2 and expired_at is not null`
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
