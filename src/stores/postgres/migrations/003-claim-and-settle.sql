-- Locks the rows that still carry the epoch, sorted, and counts them.
create function ichido.lock_mine(a_refs bigint[], a_epoch bigint)
returns bigint language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_count bigint;
begin
  select count(*) into v_count from (
    select id from ichido.delivery where id = any(a_refs) and epoch = a_epoch and owner is not null order by id for update) mine;
  return v_count;
end $$;

-- Ends a batch of one consumer: the rows go where the epoch is still the caller's, and the identities get their end. Returns how many
-- were the caller's; when those are fewer than asked nothing else is done, and the caller rolls back.
create function ichido.finish(a_consumer text, a_refs bigint[], a_topics text[], a_ids text[], a_outcomes text[], a_attempts int[],
  a_epoch bigint, a_at timestamptz)
returns bigint language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(a_at, clock_timestamp());
  v_count bigint;
begin
  delete from ichido.delivery d where d.id = any(a_refs) and d.epoch = a_epoch and d.owner is not null;
  get diagnostics v_count = row_count;
  if v_count <> cardinality(a_refs) then return v_count; end if;
  update ichido.identity i set state = f.outcome, finished_at = v_now, attempts = f.attempt, token = a_epoch
    from unnest(a_topics, a_ids, a_outcomes, a_attempts) as f(topic, id, outcome, attempt)
    where i.consumer = a_consumer and i.topic = f.topic collate "C" and i.message_id = f.id collate "C";
  insert into ichido.counter (consumer, done, duplicate, ignored, stale)
    select a_consumer, count(*) filter (where o = 'done'), count(*) filter (where o = 'duplicate'), count(*) filter (where o = 'ignored'),
      count(*) filter (where o = 'stale') from unnest(a_outcomes) o;
  return v_count;
end $$;

-- Lets the followers of a key go on, a thousand at a time: each of them is held, so the end of the last ones lets the next thousand go. A
-- statement of its own: its snapshot must be younger than the lock on the row that ended.
create function ichido.release_followers(a_consumer text, a_key text)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_count bigint;
begin
  update ichido.delivery set state = 'ready', held = true where id = any(array(
    select d.id from ichido.delivery d where d.consumer = a_consumer and d.key = a_key and d.state = 'behind' order by d.pos limit 1000));
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- One window of a claim: lock it, judge the holes with a younger snapshot (see ichido.holes), take what stands before them, mark what waits
-- behind them. The first row always comes, with what was seen. Rejected: the holes in the statement's own snapshot (two owners of one
-- key, see test/models/claim.ts); the head of each key only (6 messages/s on a hot key); a lane table (a migration for their number,
-- strangers wait for each other); `limit $n` in a plain named statement (the plan assumes a tenth of the table: 12,000 instead of 38,000/s).
create function ichido.claim(a_consumer text, a_owner text, a_window int, a_max int, a_bytes bigint, a_from bigint, a_skip text[],
  a_at timestamptz)
returns table (seen int, last_pos float8, parked int, busy text[], id float8, consumer text, topic text, message_id text, type text,
  version int, key text, pos float8, headers text, body bytea, sent_at float8, due_at float8, attempts int, deaths int, cycle int,
  held boolean, replaces text, claimed_at float8, epoch float8)
language plpgsql rows 100
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := coalesce(a_at, clock_timestamp());
  v_ids bigint[];
  v_keys text[];
  v_last bigint;
  v_bytes bigint;
  v_parked bigint := 0;
  v_busy text[];
  v_epoch bigint;
begin
  if exists (select from ichido.process where incarnation = a_owner and lost_at is null and left_at is null) then
    select array_agg(w.id), array_agg(distinct w.key) filter (where w.key is not null), max(w.pos), sum(w.bytes) into v_ids, v_keys, v_last, v_bytes from (
      select d.id, d.key, d.pos, octet_length(d.body) as bytes from ichido.delivery d
      where d.consumer = a_consumer and d.state = 'ready' and d.pos >= a_from and d.owner is null and (d.key is null or d.key <> all(a_skip))
      order by d.pos limit a_window for update skip locked) w;
  end if;
  seen := coalesce(cardinality(v_ids), 0);
  if v_keys is not null then
    with h as materialized (select * from ichido.holes(a_consumer, v_keys, v_ids)),
      w as materialized (select d.id, d.key, d.pos from ichido.delivery d where d.id = any(v_ids)),
      park as (update ichido.delivery set state = 'behind', held = true
        where id = any(array(select w.id from w join h on h.key = w.key where h.waits and w.pos > h.pos)) returning 1)
    select (select count(*) from park), array_agg(w.id order by w.pos) filter (where h.key is null or (h.locked and w.pos < h.pos)),
      array_agg(distinct h.key) filter (where not h.locked)
    into v_parked, v_ids, v_busy from w left join h on h.key = w.key;
  end if;
  return query select seen, v_last::float8, v_parked::int, v_busy, null::float8, null::text, null::text, null::text, null::text, null::int,
    null::text, null::float8, null::text, null::bytea, null::float8, null::float8, null::int, null::int, null::int, null::boolean, null::text,
    null::float8, null::float8;
  if v_ids is null then return; end if;
  if v_bytes > a_bytes or cardinality(v_ids) > a_max then
    select array_agg(x.id) into v_ids from (
      select c.id, sum(octet_length(c.body)) over (order by c.pos) as total, row_number() over (order by c.pos) as nth
      from ichido.delivery c where c.id = any(v_ids)) x where x.nth = 1 or (x.nth <= a_max and x.total <= a_bytes);
  end if;
  v_epoch := nextval('ichido.epoch');
  return query with u as (
    update ichido.delivery d set attempts = d.attempts + 1, owner = a_owner, epoch = v_epoch, claimed_at = v_now
    where d.id = any(v_ids) returning d.*)
  select null::int, null::float8, null::int, null::text[], u.id::float8, u.consumer, u.topic, u.message_id, u.type, u.version, u.key,
    u.pos::float8, u.headers, u.body, ichido.ms(u.sent_at), ichido.ms(u.due_at), u.attempts, u.deaths, u.cycle, u.held, u.replaces,
    ichido.ms(v_now), v_epoch::float8 from u order by u.pos;
end $$;
