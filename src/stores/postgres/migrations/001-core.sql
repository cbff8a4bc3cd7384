create schema if not exists ichido;

-- Names, ids and keys compare bytewise whatever the database's locale is: collate "C" everywhere.
create table ichido.meta (name text collate "C" primary key, value text not null);

create sequence ichido.delivery_id;
-- Cache 1 (the default) is needed: the place in the order is taken at the insert.
create sequence ichido.delivery_pos;
create sequence ichido.epoch;

create table ichido.subscription (
  consumer text collate "C" not null, topic text collate "C" not null, types text[] not null, fingerprint text not null, since timestamptz not null,
  primary key (topic, consumer)
);

-- One row for each delivery that was ever accepted; it decides, and stays until the retention is over. Large and cold. Half of each page is
-- free, since neighbours end together: then all of them end by HOT updates (at fillfactor 70 every second one is written into the indexes too).
create table ichido.identity (
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null,
  hash bytea not null, state text collate "C" not null, accepted_at timestamptz not null, finished_at timestamptz,
  attempts int not null default 0, token bigint, delivery_id bigint not null, heir text collate "C",
  primary key (consumer, topic, message_id)
) with (fillfactor = 50);
-- For the purge, which reads on to `finished_at`: an index on that column would end the HOT updates (PostgreSQL 15: BRIN too).
create index identity_accepted on ichido.identity (consumer, accepted_at);

-- One row for each unfinished delivery: small and hot. Lease columns are in no index and half of each page is free, so that a claim is a HOT
-- update (at fillfactor 60: two of three). It is a queue table: dead rows are swept when they are few, by number rather than by share and
-- without pauses, or the planner and the scans meet them.
create table ichido.delivery (
  id bigint primary key,
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null,
  type text collate "C" not null, version int not null, key text collate "C",
  pos bigint not null default nextval('ichido.delivery_pos'), state text collate "C" not null, due_at timestamptz, sent_at timestamptz not null,
  headers text not null, body bytea not null,
  owner text collate "C", epoch bigint not null default 0, claimed_at timestamptz, attempts int not null default 0, deaths int not null default 0,
  lost int not null default 0, solo boolean not null default false, held boolean not null default false, cycle int not null default 0,
  repeats int not null default 0, replaces text collate "C"
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0);
create index delivery_ready on ichido.delivery (consumer, pos) where state = 'ready';
create index delivery_timer on ichido.delivery (consumer, due_at, pos) where state in ('delayed', 'retry');
create index delivery_key on ichido.delivery (consumer, key, pos) where key is not null and state not in ('delayed', 'passed');
create index delivery_behind on ichido.delivery (consumer, key, pos) where state = 'behind';
create index delivery_waiting on ichido.delivery (consumer, state, pos) where state in ('suspect', 'version', 'dead', 'passed');
create index delivery_replaces on ichido.delivery (consumer, topic, replaces) where replaces is not null;

-- Attempts that did not end done at the first try.
create table ichido.attempt (
  id bigint generated always as identity primary key,
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null, cycle int not null, attempt int not null,
  planned_at timestamptz, started_at timestamptz, ended_at timestamptz not null, outcome text not null,
  class text, code text, message text, build text
);
create index attempt_message on ichido.attempt (message_id);
create index attempt_ended on ichido.attempt (consumer, ended_at);

create table ichido.kept (
  topic text collate "C" not null, message_id text collate "C" not null, type text collate "C" not null, version int not null, key text collate "C",
  pos bigint not null default nextval('ichido.delivery_pos'), due_at timestamptz, sent_at timestamptz not null, headers text not null, body bytea not null,
  hash bytea not null, expired_at timestamptz, replaces text collate "C",
  primary key (topic, message_id)
);

create table ichido.process (
  incarnation text collate "C" primary key, host text not null, pid int not null, consumers text[] not null, build text,
  started_at timestamptz not null, beat_at timestamptz not null, lost_at timestamptz, left_at timestamptz
);

-- Append only: each transaction adds a row of transitions for each consumer that it touched, and the maintenance folds them. One row per worker
-- that is updated in place would build chains of versions as long as an old snapshot is open.
create table ichido.counter (
  consumer text collate "C" not null,
  sent bigint not null default 0, resent bigint not null default 0, fanned_out bigint not null default 0, kept bigint not null default 0,
  accepted bigint not null default 0, custody bigint not null default 0, done bigint not null default 0, duplicate bigint not null default 0,
  ignored bigint not null default 0, stale bigint not null default 0, replaced bigint not null default 0, expired bigint not null default 0,
  discarded bigint not null default 0, dead bigint not null default 0, repeats bigint not null default 0, retried bigint not null default 0,
  purged bigint not null default 0
);

-- The newest completion that was purged.
create table ichido.watermark (
  consumer text collate "C" not null, topic text collate "C" not null, at timestamptz not null, raised_at timestamptz not null, primary key (consumer, topic)
);

-- Why a delivery is dead. Opened with the dead letter, closed by a redrive, an edit, a discard or a replacement.
create table ichido.case (
  id bigint generated always as identity primary key,
  consumer text collate "C" not null, topic text collate "C" not null, message_id text collate "C" not null, cycle int not null,
  class text not null, code text not null, message text not null, stack text, label text not null, build text,
  attempts int not null, opened_at timestamptz not null, closed_at timestamptz, closed_as text
);
create unique index case_open on ichido.case (consumer, topic, message_id) where closed_at is null;
create index case_opened on ichido.case (opened_at, id) where closed_at is null;

create table ichido.audit (
  id bigint generated always as identity primary key, at timestamptz not null, actor text not null, reason text not null, action text not null,
  target text not null,
  -- JSON as text: jsonb refuses U+0000 and bends numbers.
  details text not null
);

-- What the version guard remembers for each entity: the newest version that was applied.
create table ichido.guard (
  scope text collate "C" not null, entity text collate "C" not null, version text collate "C" not null, tie text collate "C" not null,
  primary key (scope, entity)
) with (fillfactor = 80);

create function ichido.ms(at timestamptz) returns float8 language sql immutable as $$ select round(extract(epoch from at) * 1000)::float8 $$;
create function ichido.at(ms float8) returns timestamptz language sql immutable as $$ select to_timestamp(ms / 1000.0) $$;

-- The first unfinished row of each key outside the window, judged by a snapshot that is younger than the locks of the window (the function is
-- volatile: its statements take their own). A claim whose snapshot is older than its locks can lease two rows of one key to two owners: a row
-- that became visible in between is in neither picture. "leased" looks eight rows far, since rows of overlapping senders appear late. "locked"
-- is whether the hole could be share-locked just now; its state is the one that the lock saw.
create function ichido.holes(the_consumer text, keys text[], own bigint[])
returns table (key text, pos bigint, leased boolean, waits boolean, locked boolean) language plpgsql volatile as $$
declare
  found record;
  is_waiting boolean;
begin
  if keys is null or cardinality(keys) = 0 then
    return;
  end if;
  for found in
    select k.key, r.first_id, r.first_pos, r.leased from unnest(keys) k(key), lateral (
      select min(x.pos) as first_pos, (array_agg(x.id order by x.pos))[1] as first_id, bool_or(x.owner is not null) as leased from (
        select d.id, d.pos, d.owner from ichido.delivery d
        where d.consumer = the_consumer and d.key = k.key and d.key is not null and d.state not in ('delayed', 'passed') and d.id <> all (own)
        order by d.pos limit 8) x) r
    where r.first_id is not null
  loop
    key := found.key; pos := found.first_pos; leased := found.leased; waits := false; locked := false;
    if not leased then
      select d.state <> 'ready' into is_waiting from ichido.delivery d
        where d.id = found.first_id and d.owner is null and d.state not in ('delayed', 'passed') for share skip locked;
      locked := is_waiting is not null;
      waits := coalesce(is_waiting, false);
    end if;
    return next;
  end loop;
end $$;
