-- One window of a claim. Two statements, because the rule is judged by a snapshot that is younger than the locks: a row that became
-- visible late, or was leased meanwhile, is not in the older one (a function of one statement failed in the model, test/models/claim.ts).
-- The plan settings pin the plans: planned on an empty table, a cached plan would scan the whole table when it has grown.
--
-- The first row of the answer has no id and tells about the window: how many rows it had, its last place, how many were marked, which keys
-- are held by others, and when the next one is due. The others are the deliveries, in order.
create function ichido.claim(a_consumer text, a_owner text, a_max integer, a_window integer, a_bytes bigint, a_from bigint, a_skip text[],
  a_promote boolean, a_at bigint)
returns table (seen integer, last_pos bigint, marked integer, busy text[], next_due bigint, alive boolean, epoch bigint, claimed_at bigint,
  id bigint, topic text, message_id text, type text, version integer, key text, pos bigint, headers text, body bytea, sent_at bigint,
  planned_at bigint, attempts integer, deaths integer, cycle integer, held boolean, replaces text)
language plpgsql rows 100
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := ichido.moment(a_at);
  v_ids bigint[];
  v_keys text[];
  v_keep bigint[];
  v_mark bigint[];
  v_busy text[];
  v_last bigint;
  v_marked integer := 0;
  v_due timestamptz;
  v_epoch bigint;
begin
  if not exists (select from ichido.process p where p.incarnation = a_owner and p.lost_at is null) then
    return query select 0, null::bigint, 0, null::text[], null::bigint, false, 0::bigint, 0::bigint, null::bigint, null::text, null::text,
      null::text, null::integer, null::text, null::bigint, null::text, null::bytea, null::bigint, null::bigint, null::integer,
      null::integer, null::integer, null::boolean, null::text;
    return;
  end if;
  if a_promote then perform ichido.promote(a_consumer, v_now); end if;

  -- `owner is null` once more for what changed since the snapshot: it is judged again when the lock is there.
  select array_agg(w.id), array_agg(distinct w.key) filter (where w.key is not null), max(w.pos) into v_ids, v_keys, v_last from (
    select d.id, d.key, d.pos from ichido.delivery d
    where d.consumer = a_consumer and d.state = 'ready' and d.pos >= a_from and d.owner is null and (d.key is null or d.key <> all(a_skip))
    order by d.pos limit a_window for update skip locked) w;

  if v_ids is not null and v_keys is not null then
    select j.keep, j.mark, j.busy into v_keep, v_mark, v_busy from ichido.judge(a_consumer, v_ids, v_keys) j;
    if v_mark is not null then
      update ichido.delivery set state = 'behind', held = true where id = any(v_mark);
      v_marked := cardinality(v_mark);
    end if;
  else
    v_keep := v_ids;
  end if;
  if v_keep is null then
    select min(due_at) into v_due from ichido.delivery where consumer = a_consumer and state in ('delayed', 'retry');
  else
    v_epoch := nextval('ichido.epoch');
  end if;
  return query select coalesce(cardinality(v_ids), 0), v_last, v_marked, v_busy, ichido.ms(v_due) - ichido.ms(v_now), true, v_epoch, ichido.ms(v_now),
    null::bigint, null::text, null::text, null::text, null::integer, null::text, null::bigint, null::text, null::bytea, null::bigint, null::bigint,
    null::integer, null::integer, null::integer, null::boolean, null::text;
  if v_keep is null then return; end if;

  return query update ichido.delivery d set attempts = d.attempts + 1, owner = a_owner, epoch = v_epoch, claimed_at = v_now
    where d.id = any(array(
      select o.id from (
        select c.id, c.pos, row_number() over (order by c.pos) as nth, sum(octet_length(c.body)) over (order by c.pos) as bytes
        from ichido.delivery c where c.id = any(v_keep)) o
      where o.nth = 1 or (o.nth <= a_max and o.bytes <= a_bytes)))
    returning null::integer, null::bigint, null::integer, null::text[], null::bigint, null::boolean, null::bigint, null::bigint, d.id, d.topic,
      d.message_id, d.type, d.version, d.key, d.pos, d.headers, d.body, ichido.ms(d.sent_at), ichido.ms(d.due_at), d.attempts, d.deaths,
      d.cycle, d.held, d.replaces;
end $$;

-- The hole rule. Of each key a claim keeps what stands before the key's first unfinished row that it did not lock, the hole; nothing of the
-- key when the hole or the row after it is leased or cannot be share-locked now: another claim may be about to lease it. Rows after a
-- hole that waits are marked as behind, and only under that lock: whoever ends the hole releases them, and must wait until the mark is visible.
create function ichido.judge(a_consumer text, a_ids bigint[], a_keys text[], out keep bigint[], out mark bigint[], out busy text[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  with rest as materialized (
    select k.key, h.id, h.pos, h.state, h.owner, h.nth
    from unnest(a_keys) k(key), lateral (
      select d.id, d.pos, d.state, d.owner, row_number() over (order by d.pos) as nth from (
        select d.id, d.pos, d.state, d.owner from ichido.delivery d
        where d.consumer = a_consumer and d.key = k.key collate "C" and d.key is not null and d.state not in ('delayed', 'passed')
          and d.id <> all(a_ids)
        order by d.pos limit 2) d) h
  ), shared as materialized (
    select d.id, d.state from ichido.delivery d
    where d.id = any(array(select rest.id from rest)) and d.owner is null and d.state not in ('delayed', 'passed') for share skip locked
  ), hole as materialized (
    select r.key, min(r.pos) as pos, bool_and(s.id is not null) filter (where r.nth = 1 or not f.waits) as free,
      bool_or(r.nth = 1 and s.id is not null and s.state <> 'ready') as waits
    from rest r left join shared s on s.id = r.id,
      lateral (select exists (select from rest x where x.key = r.key and x.nth = 1 and x.state <> 'ready') as waits) f
    group by r.key
  ), judged as (
    select w.id, h.key, h.pos is null or (h.free and w.pos < h.pos) as kept, coalesce(h.waits and w.pos > h.pos, false) as marked
    from ichido.delivery w left join hole h on h.key = w.key where w.id = any(a_ids)
  )
  select array_agg(j.id) filter (where j.kept), array_agg(j.id) filter (where j.marked),
    array_agg(distinct j.key) filter (where not j.kept and not j.marked)
  into keep, mark, busy from judged j;
end $$;

-- Due retries keep their place; what was delayed enters the order now, at its end.
create function ichido.promote(a_consumer text, a_now timestamptz)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  update ichido.delivery d set state = 'ready', pos = coalesce(y.place, d.pos) from (
    select z.id, case when z.state = 'delayed' then nextval('ichido.delivery_pos') end as place from (
      select id, state from ichido.delivery where consumer = a_consumer and state in ('delayed', 'retry') and due_at <= a_now
      order by due_at, id limit 500 for update skip locked) z) y
  where d.id = y.id;
end $$;

-- One suspect whose key has nothing unfinished before it and nothing that runs. It is claimed alone, by a process that runs nothing else.
create function ichido.claim_suspect(a_consumer text, a_owner text, a_at bigint)
returns table (epoch bigint, claimed_at bigint, id bigint, topic text, message_id text, type text, version integer, key text, pos bigint,
  headers text, body bytea, sent_at bigint, planned_at bigint, attempts integer, deaths integer, cycle integer, held boolean, replaces text)
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  v_now timestamptz := ichido.moment(a_at);
  v_row record;
  v_epoch bigint;
  v_keep bigint[];
begin
  if not exists (select from ichido.process p where p.incarnation = a_owner and p.lost_at is null) then return; end if;
  for v_row in
    select d.id, d.key from ichido.delivery d where d.consumer = a_consumer and d.state = 'suspect'
      and d.state not in ('ready', 'delayed', 'retry', 'behind') order by d.pos limit 50 for update skip locked
  loop
    v_keep := array[v_row.id];
    if v_row.key is not null then
      select j.keep into v_keep from ichido.judge(a_consumer, array[v_row.id], array[v_row.key]) j;
    end if;
    continue when v_keep is null;
    v_epoch := nextval('ichido.epoch');
    return query update ichido.delivery d set state = 'ready', solo = true, attempts = d.attempts + 1, owner = a_owner, epoch = v_epoch,
        claimed_at = v_now where d.id = v_row.id
      returning v_epoch, ichido.ms(v_now), d.id, d.topic, d.message_id, d.type, d.version, d.key, d.pos, d.headers, d.body,
        ichido.ms(d.sent_at), ichido.ms(d.due_at), d.attempts, d.deaths, d.cycle, d.held, d.replaces;
    return;
  end loop;
end $$;
