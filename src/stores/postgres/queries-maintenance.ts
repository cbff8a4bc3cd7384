// The statements of the loops and of processes.
const now = (parameter: number) => `coalesce($${parameter}::timestamptz, clock_timestamp())`

export const selectAdoptable = `select topic, message_id, type, version, key, pos::float8, ichido.ms(due_at) as due_at, ichido.ms(sent_at) as sent_at, headers, body, hash, replaces
  from ichido.kept k where exists (select 1 from ichido.subscription s where s.topic = k.topic) order by k.pos limit 500 for update skip locked`
export const adoptKept = `with s as materialized (select k.*, sub.consumer from ichido.kept k join ichido.subscription sub on sub.topic = k.topic
    where k.topic = $1 and k.message_id = $2),
  i as (insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, delivery_id)
    select consumer, topic, message_id, hash, 'open', ${now(3)}, nextval('ichido.delivery_id') from s order by consumer on conflict do nothing returning consumer, delivery_id),
  d as (insert into ichido.delivery (id, consumer, topic, message_id, type, version, key, pos, state, due_at, sent_at, headers, body, replaces)
    select i.delivery_id, s.consumer, s.topic, s.message_id, s.type, s.version, s.key, s.pos, case when s.due_at > ${now(3)} then 'delayed' else 'ready' end,
      case when s.due_at > ${now(3)} then s.due_at end, s.sent_at, s.headers, s.body, s.replaces from s join i on i.consumer = s.consumer returning 1)
  select consumer from i`
export const deleteKept = `delete from ichido.kept where topic = $1 and message_id = $2`
export const selectExpiredKept = `select topic, message_id from ichido.kept k where expired_at is null and sent_at < ${now(2)} - $1::float8 * interval '1 millisecond'
  and not exists (select 1 from ichido.subscription s where s.topic = k.topic) limit 500 for update skip locked`
export const expireKept = `update ichido.kept set expired_at = ${now(3)} where topic = $1 and message_id = $2`
export const closeKeptCase = `update ichido.case set closed_at = ${now(3)}, closed_as = 'adopted' where consumer = '' and topic = $1 and message_id = $2 and closed_at is null`

/**
 * The watermark becomes the newest completion of what may be purged next. It tells when, and stays as it is while that is not newer, so that
 * the wait for older transactions comes to an end. Completed means accepted before: the index is on that.
 */
export const raiseWatermark = `insert into ichido.watermark (consumer, topic, at, raised_at) select $1, topic, max(finished_at), clock_timestamp() from (
    select topic, finished_at from ichido.identity where consumer = $1 and accepted_at < ${now(3)} - $2::float8 * interval '1 millisecond'
    and finished_at < ${now(3)} - $2::float8 * interval '1 millisecond' and state <> 'open' order by accepted_at limit 50000) x group by topic
  on conflict (consumer, topic) do update set at = excluded.at, raised_at = excluded.raised_at where excluded.at > watermark.at`
/** Transactions of this database that began before the watermark was raised and have not ended: they may have read the old one. */
export const countOlderTransactions = `select count(*)::int as n from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
  and xact_start is not null and xact_start <= (select max(raised_at) from ichido.watermark where consumer = $1)`
export const purgeIdentities = `delete from ichido.identity where ctid = any (array(select i.ctid from ichido.identity i join ichido.watermark w
  on w.consumer = i.consumer and w.topic = i.topic where i.consumer = $1 and i.state <> 'open' and i.finished_at <= w.at
  and i.accepted_at < ${now(3)} - $2::float8 * interval '1 millisecond' and i.finished_at < ${now(3)} - $2::float8 * interval '1 millisecond' limit 5000))`
export const purgeAttempts = `delete from ichido.attempt where id = any (array(select a.id from ichido.attempt a where a.consumer = $1
  and a.ended_at < ${now(3)} - $2::float8 * interval '1 millisecond' and not exists (select 1 from ichido.identity i
  where i.consumer = a.consumer and i.topic = a.topic and i.message_id = a.message_id) limit 5000))`

export const registerProcess = `insert into ichido.process (incarnation, host, pid, consumers, build, started_at, beat_at) values ($1, $2, $3, $4, $5, ${now(6)}, ${now(6)})`
export const beat = `update ichido.process set beat_at = ${now(2)} where incarnation = $1 and lost_at is null`
export const leaveProcess = `update ichido.process set left_at = ${now(2)} where incarnation = $1`
/** One that still owns something stays: nobody else would give its deliveries back. */
export const forgetProcesses = `delete from ichido.process p where coalesce(lost_at, left_at) < ${now(2)} - 10 * $1::float8 * interval '1 millisecond'
  and not exists (select 1 from ichido.delivery d where d.state = 'ready' and d.owner = p.incarnation)`
export const markLost = `update ichido.process set lost_at = ${now(2)} where incarnation = any (array(select incarnation from ichido.process
  where lost_at is null and left_at is null and beat_at < ${now(2)} - $1::float8 * interval '1 millisecond' for update skip locked)) returning incarnation`
/** Also those that left and, since their last commit failed, gave back less than they owned. */
export const selectLostProcesses = `select incarnation from ichido.process where lost_at is not null
  or left_at < ${now(2)} - $1::float8 * interval '1 millisecond'`
/** A row that is locked is being settled by an owner who lives, or whose timeouts will end him: the row lock is a lease of its own. */
export const selectOwned = `select id::float8, consumer, topic, message_id, solo, deaths, attempts, cycle, ichido.ms(claimed_at) as claimed_at from ichido.delivery
  where state = 'ready' and owner = $1 order by id for update skip locked`
export const suspectDelivery = `update ichido.delivery set state = 'suspect', held = true, owner = null, epoch = 0, solo = false, lost = lost + 1, deaths = $2, attempts = $3 where id = $1`
export const buryDelivery = `update ichido.delivery set state = 'dead', held = true, owner = null, epoch = 0, solo = false, lost = lost + 1, deaths = $2 where id = $1`
export const releaseOwned = `update ichido.delivery set state = case when solo then 'suspect' else 'ready' end, owner = null, epoch = 0, solo = false,
  attempts = attempts - 1 where state = 'ready' and owner = $1`

export const releaseVersions = `update ichido.delivery set state = 'ready' where id = any (array(select id from ichido.delivery
  where consumer = $1 and state = 'version' and state in ('suspect', 'version', 'dead', 'passed') and type = $2 and version <= $3 limit 1000 for update skip locked))`
export const clearSuspects = `update ichido.delivery set state = 'ready' where id = any (array(select d.id from ichido.delivery d
  where d.consumer = $1 and d.state = 'suspect' and d.state in ('suspect', 'version', 'dead', 'passed') and d.lost = 0 and d.deaths = 0
  and not exists (select 1 from ichido.process p where $1 = any (p.consumers) and p.left_at is null
    and (p.lost_at > d.claimed_at - interval '1 minute' or (p.lost_at is null and p.beat_at < d.claimed_at))) limit 1000 for update skip locked))`

const amounts = `sent, resent, fanned_out, kept, accepted, custody, done, duplicate, ignored, stale, replaced, expired, discarded, dead, repeats, retried, purged`
const sums = amounts
  .split(', ')
  .map(name => `sum(${name})`)
  .join(', ')
/** Rows of transactions that are still open are not seen and stay; the delete takes what it saw. */
export const foldCounters = `with old as (delete from ichido.counter where (select count(*) from ichido.counter) > (select count(distinct consumer) from ichido.counter)
    returning *) insert into ichido.counter (consumer, ${amounts}) select consumer, ${sums} from old group by consumer`
export const tryMaintenanceLock = `select pg_try_advisory_xact_lock(hashtextextended('ichido.' || $1, 0)) as mine`

export const upsertSubscription = `insert into ichido.subscription (consumer, topic, types, fingerprint, since) values ($1, $2, $3, $4, ${now(5)})
  on conflict (topic, consumer) do update set types = excluded.types, fingerprint = excluded.fingerprint`
export const selectSubscriptions = `select consumer, topic, types, fingerprint from ichido.subscription order by consumer, topic`
