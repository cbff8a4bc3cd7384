// The hot statements. `indexed by` where the planner would otherwise walk the wrong rows: it chose the primary key past 100,000 dead
// rows (15,900 instead of 75,100 messages/s), and it fails loudly when the index is missing.

const columns = `id, consumer, topic, message_id, type, version, key, pos, headers, body, sent_at, due_at, attempts, deaths, cycle, held, replaces`

export const takeNumbers = `update ichido_sequence set pos = pos + ?, delivery = delivery + ? returning pos, delivery`
export const nextEpoch = `update ichido_sequence set epoch = epoch + 1 returning epoch`

export const subscribersOf = `select consumer from ichido_subscription where topic = ? order by consumer`

export const insertIdentity = `insert into ichido_identity (consumer, topic, message_id, hash, state, accepted_at, finished_at, token, delivery_id)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`
export const selectIdentity = `select hash, state, finished_at, token, delivery_id, heir from ichido_identity where consumer = ? and topic = ? and message_id = ?`
export const endIdentity = `update ichido_identity set state = ?, finished_at = ?, attempts = ?, token = ? where consumer = ? and topic = ? and message_id = ?`
export const replaceIdentity = `update ichido_identity set state = 'replaced', finished_at = ?, heir = ? where consumer = ? and topic = ? and message_id = ?`

export const insertDelivery = `insert into ichido_delivery (id, consumer, topic, message_id, type, version, key, pos, state, due_at, sent_at, headers, body,
  held, replaces, attempts, claimed_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
export const deleteDelivery = `delete from ichido_delivery where id = ?`
export const finishDelivery = `delete from ichido_delivery where id = ? and epoch = ? and owner is not null`
export const selectDelivery = `select ${columns}, state, owner, epoch, repeats from ichido_delivery where id = ?`
export const lockDelivery = `select 1 as mine from ichido_delivery where id = ? and epoch = ? and owner is not null`
export const bumpRepeats = `update ichido_delivery set repeats = repeats + 1 where id = ?`

export const insertKept = `insert into ichido_kept (topic, message_id, type, version, key, pos, due_at, sent_at, headers, body, hash, replaces)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`
export const hasKept = `select 1 as kept from ichido_kept where topic = ? limit 1`
export const selectKeptHash = `select hash from ichido_kept where topic = ? and message_id = ?`
export const selectAdoptable = `select k.rowid as row, k.* from ichido_kept k
  where exists (select 1 from ichido_subscription s where s.topic = k.topic) order by k.pos limit ?`
export const discardKept = `delete from ichido_kept where topic = ? and message_id = ? and expired_at is not null`
export const deleteKept = `delete from ichido_kept where rowid = ?`

export const isAlive = `select 1 as alive from ichido_process where incarnation = ? and lost_at is null and left_at is null`
export const selectDue = `select id, state from ichido_delivery indexed by ichido_delivery_timer
  where consumer = ? and state in ('delayed', 'retry') and due_at <= ? order by due_at, id limit 500`
export const selectNextDue = `select due_at from ichido_delivery indexed by ichido_delivery_timer
  where consumer = ? and state in ('delayed', 'retry') order by due_at limit 1`
export const promoteRetries = `update ichido_delivery set state = 'ready' where id = ?`
export const promoteDelayed = `update ichido_delivery set state = 'ready', pos = ? where id = ?`
export const selectWindow = `select ${columns} from ichido_delivery indexed by ichido_delivery_ready
  where consumer = ? and state = 'ready' and pos >= ? and owner is null order by pos limit ?`
export const selectFirstOfKey = `select id, pos, state, owner from ichido_delivery indexed by ichido_delivery_key
  where consumer = ? and key = ? and key is not null and state not in ('delayed', 'passed') order by pos limit ?`
export const takeDelivery = `update ichido_delivery set attempts = attempts + 1, owner = ?, epoch = ?, claimed_at = ? where id = ?`
export const markBehind = `update ichido_delivery set state = 'behind', held = 1 where id = ?`
export const releaseFollowers = `update ichido_delivery set state = 'ready', held = 1 where id in (
  select id from ichido_delivery indexed by ichido_delivery_key
  where consumer = ? and key = ? and key is not null and state not in ('delayed', 'passed') and state = 'behind' order by pos limit 1000)`

export const selectSuspects = `select ${columns} from ichido_delivery indexed by ichido_delivery_waiting
  where consumer = ? and state = 'suspect' and state not in ('ready', 'delayed', 'retry') order by pos limit 50`
export const takeSuspect = `update ichido_delivery set state = 'ready', solo = 1, attempts = attempts + 1, owner = ?, epoch = ?, claimed_at = ? where id = ?`
export const hasSuspects = `select 1 as waits from ichido_delivery indexed by ichido_delivery_waiting
  where consumer = ? and state = 'suspect' and state not in ('ready', 'delayed', 'retry') limit 1`

export const deferRetry = `update ichido_delivery set state = 'retry', due_at = ?, held = 1, owner = null, epoch = 0, solo = 0
  where id = ? and epoch = ? and owner is not null`
export const deferDead = `update ichido_delivery set state = ?, held = 1, owner = null, epoch = 0, solo = 0 where id = ? and epoch = ? and owner is not null`
export const deferVersion = `update ichido_delivery set state = 'version', held = 1, owner = null, epoch = 0, solo = 0, attempts = attempts - 1
  where id = ? and epoch = ? and owner is not null`
export const releaseDelivery = `update ichido_delivery set state = case when solo = 1 then 'suspect' else 'ready' end, owner = null, epoch = 0, solo = 0,
  attempts = attempts - 1 where id = ? and epoch = ? and owner is not null`
export const insertAttempt = `insert into ichido_attempt (consumer, topic, message_id, cycle, attempt, planned_at, started_at, ended_at, outcome, class, code, message, build)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
export const selectWaitingHeir = `select id, message_id, key, pos, state, owner from ichido_delivery indexed by ichido_delivery_replaces
  where consumer = ? and topic = ? and replaces = ? and replaces is not null order by pos limit 1`
export const inheritPlace = `update ichido_delivery set pos = ?, held = 1, state = case when state = 'behind' then 'ready' else state end where id = ?`

export const openCase = `insert into ichido_case (consumer, topic, message_id, cycle, class, code, message, stack, label, build, attempts, opened_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`
export const closeCase = `update ichido_case set closed_at = ?, closed_as = ? where consumer = ? and topic = ? and message_id = ? and closed_at is null`

export const selectWatermark = `select at from ichido_watermark where consumer = ? and topic = ?`
export const advanceGuard = `insert into ichido_guard (scope, entity, version, tie) values (?, ?, ?, ?)
  on conflict (scope, entity) do update set version = excluded.version, tie = excluded.tie
  where (excluded.version, excluded.tie) > (ichido_guard.version, ichido_guard.tie)`
export const insertAudit = `insert into ichido_audit (at, actor, reason, action, target, details) values (?, ?, ?, ?, ?, ?)`

export const addCounters = `insert into ichido_counter (consumer, sent, resent, fanned_out, kept, accepted, custody, done, duplicate, ignored, stale, replaced,
  expired, discarded, dead, repeats, retried, purged) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  on conflict (consumer) do update set sent = sent + excluded.sent, resent = resent + excluded.resent, fanned_out = fanned_out + excluded.fanned_out,
  kept = kept + excluded.kept, accepted = accepted + excluded.accepted, custody = custody + excluded.custody, done = done + excluded.done,
  duplicate = duplicate + excluded.duplicate, ignored = ignored + excluded.ignored, stale = stale + excluded.stale, replaced = replaced + excluded.replaced,
  expired = expired + excluded.expired, discarded = discarded + excluded.discarded, dead = dead + excluded.dead, repeats = repeats + excluded.repeats,
  retried = retried + excluded.retried, purged = purged + excluded.purged`

export const redriveDelivery = `update ichido_delivery set state = 'ready', pos = ?, attempts = 0, deaths = 0, lost = 0, cycle = cycle + 1, due_at = null, held = 1,
  owner = null, epoch = 0, solo = 0 where id = ?`
export const discardIdentity = `update ichido_identity set state = 'discarded', finished_at = ? where consumer = ? and topic = ? and message_id = ?`
export const passDelivery = `update ichido_delivery set state = 'passed' where id = ?`
