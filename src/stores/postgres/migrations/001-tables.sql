-- Texts that are compared or ordered are `collate "C"`: by bytes, whatever the database's own locale says.

create sequence ichido.delivery_id;
-- Cache 1, the default: the place in the order is the time of the insert.
create sequence ichido.delivery_pos;
create sequence ichido.epoch;

create table ichido.subscription (
  consumer text collate "C" not null, topic text collate "C" not null, types text[] not null, fingerprint text not null,
  since timestamptz not null,
  primary key (topic, consumer)
);

-- One row for each delivery that was ever accepted; it decides, and stays until the retention is over. No index holds a column that
-- its end changes, and the pages have room: finishing is a HOT update.
create table ichido.identity (
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null,
  hash bytea not null, state text collate "C" not null, accepted_at timestamptz not null, finished_at timestamptz,
  attempts integer not null default 0, token bigint, delivery_id bigint not null,
  -- The message that took its place, when it ended as replaced.
  heir text collate "C",
  primary key (consumer, topic, message_id)
) with (fillfactor = 70);
create index identity_accepted on ichido.identity (consumer, accepted_at);

-- One row for each unfinished delivery. The lease columns (owner, epoch, attempts, deaths, solo, claimed_at) are in no index, so that a claim
-- is a HOT update; `pos` is not the primary key, or the planner would walk that past a million delayed rows. The table is small and
-- all of it changes all the time: it is vacuumed by the number of dead rows rather than by their share, or one burst would leave indexes
-- full of dead entries that each claim walks over.
create table ichido.delivery (
  id bigint primary key,
  pos bigint not null default nextval('ichido.delivery_pos'),
  epoch bigint not null default 0,
  due_at timestamptz, sent_at timestamptz not null, claimed_at timestamptz,
  version integer not null, attempts integer not null default 0, deaths integer not null default 0, lost integer not null default 0,
  cycle integer not null default 0, repeats integer not null default 0,
  solo boolean not null default false, held boolean not null default false,
  state text collate "C" not null, consumer text collate "C" not null, topic text collate "C" not null,
  message_id text collate "C" not null, type text collate "C" not null, key text collate "C", owner text collate "C",
  replaces text collate "C", headers text not null, body bytea not null
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index delivery_ready on ichido.delivery (consumer, pos) where state = 'ready';
create index delivery_timer on ichido.delivery (consumer, due_at, id) where state in ('delayed', 'retry');
create index delivery_key on ichido.delivery (consumer, key, pos) where key is not null and state not in ('delayed', 'passed');
create index delivery_behind on ichido.delivery (consumer, key, pos) where state = 'behind';
create index delivery_waiting on ichido.delivery (consumer, state, pos) where state not in ('ready', 'delayed', 'retry', 'behind');
create index delivery_replaces on ichido.delivery (consumer, topic, replaces) where replaces is not null;

-- Attempts that did not end done at the first try.
create table ichido.attempt (
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null,
  cycle integer not null, attempt integer not null, planned_at timestamptz, started_at timestamptz, ended_at timestamptz not null,
  outcome text not null, class text, code text, message text, build text
);
create index attempt_message on ichido.attempt (message_id);
create index attempt_ended on ichido.attempt (consumer, ended_at);

create table ichido.kept (
  topic text collate "C" not null, message_id text collate "C" not null, type text collate "C" not null, version integer not null,
  key text collate "C", pos bigint not null default nextval('ichido.delivery_pos'), due_at timestamptz, sent_at timestamptz not null,
  headers text not null, body bytea not null, hash bytea not null, expired_at timestamptz, replaces text collate "C",
  primary key (topic, message_id)
);
create index kept_pos on ichido.kept (pos);

create table ichido.process (
  incarnation text collate "C" primary key, host text not null, pid integer not null, consumers text[] not null, build text,
  started_at timestamptz not null, beat_at timestamptz not null, lost_at timestamptz, left_at timestamptz
) with (fillfactor = 50);

-- Transitions, added up. Every transaction appends a row for each consumer that it touched, and maintenance folds them together: a row that
-- all update would serialise them, and a row per worker would grow a chain of versions under an old snapshot.
create table ichido.counter (
  consumer text collate "C" not null,
  sent bigint not null default 0, resent bigint not null default 0, fanned_out bigint not null default 0, kept bigint not null default 0,
  accepted bigint not null default 0, custody bigint not null default 0, done bigint not null default 0,
  duplicate bigint not null default 0, ignored bigint not null default 0, stale bigint not null default 0,
  replaced bigint not null default 0, expired bigint not null default 0, discarded bigint not null default 0,
  dead bigint not null default 0, repeats bigint not null default 0, retried bigint not null default 0, purged bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The newest completion that was purged.
create table ichido.watermark (
  consumer text collate "C" not null, topic text collate "C" not null, at timestamptz not null, primary key (consumer, topic)
);

-- Why a delivery is dead. Opened with the dead letter, closed by a redrive, an edit, a discard or a replacement.
create table ichido."case" (
  id bigint generated always as identity primary key,
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null, cycle integer not null,
  class text not null, code text collate "C" not null, message text not null, stack text, label text not null, build text,
  attempts integer not null, opened_at timestamptz not null, closed_at timestamptz, closed_as text
);
create unique index case_open on ichido."case" (consumer, topic, message_id) where closed_at is null;
create index case_opened on ichido."case" (opened_at, id) where closed_at is null;

create table ichido.audit (
  id bigint generated always as identity primary key, at timestamptz not null, actor text not null, reason text not null,
  action text not null, target text not null, details text not null
);

-- What the version guard remembers for each entity: the newest version that was applied.
create table ichido.guard (
  scope text collate "C" not null, entity text collate "C" not null, version text collate "C" not null, tie text collate "C" not null,
  primary key (scope, entity)
) with (fillfactor = 80);

-- The store's clock, or the moment that a test passes.
create function ichido.moment(at bigint) returns timestamptz language sql volatile
  as $$ select coalesce(to_timestamp(at / 1000.0), clock_timestamp()) $$;
create function ichido.ms(at timestamptz) returns bigint language sql immutable
  as $$ select (extract(epoch from at) * 1000)::bigint $$;
