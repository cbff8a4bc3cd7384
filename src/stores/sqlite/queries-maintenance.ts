// The statements of the loops and of processes.

export const selectExpiredKept = `select topic, message_id from ichido_kept where expired_at is null and sent_at < ?
  and not exists (select 1 from ichido_subscription s where s.topic = ichido_kept.topic) limit 500`
export const expireKept = `update ichido_kept set expired_at = ? where topic = ? and message_id = ?`
export const closeKeptCase = `update ichido_case set closed_at = ?, closed_as = 'adopted' where consumer = '' and topic = ? and message_id = ? and closed_at is null`

export const selectPurgeable = `select topic, max(finished_at) as at, count(*) as n from (
  select topic, finished_at from ichido_identity indexed by ichido_identity_finished
  where consumer = ? and finished_at is not null and finished_at < ? order by finished_at limit ?) group by topic`
export const raiseWatermark = `insert into ichido_watermark (consumer, topic, at) values (?, ?, ?)
  on conflict (consumer, topic) do update set at = max(at, excluded.at)`
export const purgeIdentities = `delete from ichido_identity where (consumer, topic, message_id) in (
  select consumer, topic, message_id from ichido_identity indexed by ichido_identity_finished
  where consumer = ? and finished_at is not null and finished_at < ? order by finished_at limit ?)`
export const purgeAttempts = `delete from ichido_attempt where rowid in (
  select a.rowid from ichido_attempt a where a.consumer = ? and a.ended_at < ?
  and not exists (select 1 from ichido_identity i where i.consumer = a.consumer and i.topic = a.topic and i.message_id = a.message_id) limit ?)`

export const registerProcess = `insert into ichido_process (incarnation, host, pid, consumers, build, started_at, beat_at) values (?, ?, ?, ?, ?, ?, ?)`
export const beat = `update ichido_process set beat_at = ?, jumped_at = coalesce(?, jumped_at) where incarnation = ? and lost_at is null`
export const leaveProcess = `update ichido_process set left_at = ? where incarnation = ?`
export const forgetProcesses = `delete from ichido_process where coalesce(lost_at, left_at) < ?`
export const selectLostProcesses = `select incarnation from ichido_process where lost_at is null and left_at is null and beat_at < ?
  and not exists (select 1 from ichido_process j where j.jumped_at > ?)`
export const markLost = `update ichido_process set lost_at = ? where incarnation = ?`
export const selectOwned = `select id, consumer, topic, message_id, solo, deaths, attempts, cycle, claimed_at from ichido_delivery
  where state = 'ready' and owner = ?`
export const suspectDelivery = `update ichido_delivery set state = 'suspect', held = 1, owner = null, epoch = 0, solo = 0, lost = lost + 1, deaths = ?, attempts = ?
  where id = ?`
export const buryDelivery = `update ichido_delivery set state = 'dead', held = 1, owner = null, epoch = 0, solo = 0, lost = lost + 1, deaths = ? where id = ?`
export const releaseOwned = `update ichido_delivery set state = case when solo = 1 then 'suspect' else 'ready' end, owner = null, epoch = 0, solo = 0,
  attempts = attempts - 1 where state = 'ready' and owner = ?`

export const releaseVersions = `update ichido_delivery set state = 'ready' where id in (
  select id from ichido_delivery indexed by ichido_delivery_waiting
  where consumer = ? and state = 'version' and state not in ('ready', 'delayed', 'retry') and type = ? and version <= ? limit 1000)`
export const clearSuspects = `update ichido_delivery set state = 'ready' where id in (
  select d.id from ichido_delivery d indexed by ichido_delivery_waiting
  where d.consumer = ? and d.state = 'suspect' and d.state not in ('ready', 'delayed', 'retry') and d.lost = 0 and d.deaths = 0
  and not exists (select 1 from ichido_process p, json_each(p.consumers) c where c.value = ? and p.left_at is null
    and (p.lost_at > d.claimed_at - 60000 or (p.lost_at is null and p.beat_at < d.claimed_at))) limit 1000)`

export const upsertSubscription = `insert into ichido_subscription (consumer, topic, types, fingerprint, since) values (?, ?, ?, ?, ?)
  on conflict (topic, consumer) do update set types = excluded.types, fingerprint = excluded.fingerprint`
export const selectSubscriptions = `select consumer, topic, types, fingerprint from ichido_subscription order by consumer, topic`
