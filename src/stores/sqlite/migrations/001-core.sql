create table ichido_meta (name text primary key, value text not null) without rowid;

-- The next place in the order, and the next epoch. One row, changed once per transaction.
create table ichido_sequence (only_row integer primary key check (only_row = 1), pos integer not null, epoch integer not null, delivery integer not null);
insert into ichido_sequence values (1, 0, 0, 0);

create table ichido_subscription (
  consumer text not null, topic text not null, types text not null, fingerprint text not null, since integer not null,
  primary key (topic, consumer)
) without rowid;

-- One row for each delivery that was ever accepted; it decides, and stays until the retention is over.
create table ichido_identity (
  consumer text not null, topic text not null, message_id text not null,
  hash blob not null, state text not null, accepted_at integer not null, finished_at integer,
  attempts integer not null default 0, token integer, delivery_id integer not null,
  -- The message that took its place, when it ended as replaced.
  heir text,
  primary key (consumer, topic, message_id)
) without rowid;
create index ichido_identity_message on ichido_identity (message_id);
create index ichido_identity_finished on ichido_identity (consumer, finished_at) where finished_at is not null;

-- One row for each unfinished delivery. The lease columns (owner, epoch, attempts, deaths, solo, claimed_at) are in no index.
create table ichido_delivery (
  id integer primary key,
  consumer text not null, topic text not null, message_id text not null, type text not null, version integer not null,
  key text, pos integer not null, state text not null, due_at integer, sent_at integer not null,
  headers text not null, body blob not null,
  owner text, epoch integer not null default 0, claimed_at integer, attempts integer not null default 0, deaths integer not null default 0,
  lost integer not null default 0, solo integer not null default 0, held integer not null default 0, cycle integer not null default 0,
  repeats integer not null default 0, replaces text
);
create index ichido_delivery_ready on ichido_delivery (consumer, pos) where state = 'ready';
create index ichido_delivery_timer on ichido_delivery (consumer, due_at, id) where state in ('delayed', 'retry');
create index ichido_delivery_key on ichido_delivery (consumer, key, pos) where key is not null and state not in ('delayed', 'passed');
create index ichido_delivery_waiting on ichido_delivery (consumer, state, pos) where state not in ('ready', 'delayed', 'retry');
create index ichido_delivery_replaces on ichido_delivery (consumer, topic, replaces) where replaces is not null;

-- Attempts that did not end done at the first try.
create table ichido_attempt (
  consumer text not null, topic text not null, message_id text not null, cycle integer not null, attempt integer not null,
  planned_at integer, started_at integer, ended_at integer not null, outcome text not null,
  class text, code text, message text, build text
);
create index ichido_attempt_message on ichido_attempt (message_id);
create index ichido_attempt_ended on ichido_attempt (consumer, ended_at);

create table ichido_kept (
  topic text not null, message_id text not null, type text not null, version integer not null, key text, pos integer not null,
  due_at integer, sent_at integer not null, headers text not null, body blob not null, hash blob not null,
  expired_at integer, replaces text,
  primary key (topic, message_id)
);

create table ichido_process (
  incarnation text primary key, host text not null, pid integer not null, consumers text not null, build text,
  started_at integer not null, beat_at integer not null, jumped_at integer, lost_at integer, left_at integer
) without rowid;

create table ichido_counter (
  consumer text primary key,
  sent integer not null default 0, resent integer not null default 0, fanned_out integer not null default 0, kept integer not null default 0,
  accepted integer not null default 0, custody integer not null default 0, done integer not null default 0,
  duplicate integer not null default 0, ignored integer not null default 0, stale integer not null default 0,
  replaced integer not null default 0, expired integer not null default 0, discarded integer not null default 0,
  dead integer not null default 0, repeats integer not null default 0, retried integer not null default 0, purged integer not null default 0
) without rowid;

-- The newest completion that was purged.
create table ichido_watermark (consumer text not null, topic text not null, at integer not null, primary key (consumer, topic)) without rowid;

-- Why a delivery is dead. Opened with the dead letter, closed by a redrive, an edit, a discard or a replacement.
create table ichido_case (
  id integer primary key,
  consumer text not null, topic text not null, message_id text not null, cycle integer not null,
  class text not null, code text not null, message text not null, stack text, label text not null, build text,
  attempts integer not null, opened_at integer not null, closed_at integer, closed_as text
);
create unique index ichido_case_open on ichido_case (consumer, topic, message_id) where closed_at is null;
create index ichido_case_opened on ichido_case (opened_at, id) where closed_at is null;

create table ichido_audit (
  id integer primary key, at integer not null, actor text not null, reason text not null, action text not null, target text not null,
  details text not null
);

-- What the version guard remembers for each entity: the newest version that was applied.
create table ichido_guard (
  scope text not null, entity text not null, version text not null, tie text not null, primary key (scope, entity)
) without rowid;
