-- The hot statements are functions, because a function can pin its plans. Planned while the table is empty, a cached plan scans it; when a
-- burst has filled the table, each batch reads all of it until the next ANALYZE. (Measured: the look for reused ids of one send
-- read the whole table of identities, 24 ms at 20,000 rows.) And they cost one round trip and no planning behind a pooler without
-- prepared statements.

-- Fans messages out to the subscriptions of their topics. One statement reads the subscriptions and writes both the deliveries and what is
-- kept, so that no message falls between them when a consumer registers meanwhile. Identities are inserted sorted, and whoever inserts one
-- first wins; deliveries are inserted in the order of the sends. `kept`: 0 no, 1 now, 2 it was kept before. `reused`: this
-- known id came with other contents; then everything that the call wrote is taken back, and the caller's transaction stays usable.
-- `heirs`: how many of the new deliveries replace another.
create function ichido.accept(a_topics text[], a_ids text[], a_types text[], a_versions int[], a_keys text[], a_headers text[],
  a_bodies bytea[], a_hashes bytea[], a_sent timestamptz[], a_due timestamptz[], a_delays float8[], a_replaces text[], a_at timestamptz,
  out fan_out int[], out subscribers int[], out kept int[], out reused text)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(a_at, clock_timestamp());
  v_refs bigint[];
begin
  -- What is kept holds its ids, also when its topic has a consumer and it is about to be adopted.
  if exists (select from ichido.kept) then
    reused := ichido.find_reused(a_topics, a_ids, a_hashes);
    if reused is not null then return; end if;
  end if;
  with m as materialized (
    select u.*, coalesce(u.sent, v_now) as sent_at, coalesce(u.due, v_now + u.delay * interval '1 millisecond') as due_at
    from unnest(a_topics, a_ids, a_types, a_versions, a_keys, a_headers, a_bodies, a_hashes, a_sent, a_due, a_delays, a_replaces)
      with ordinality as u(topic, id, type, version, key, headers, body, hash, sent, due, delay, heir_of, n)
  ), f as materialized (
    select m.*, s.consumer, case when s.consumer is not null then nextval('ichido.delivery_id') end as ref
    from m left join ichido.subscription s on s.topic = m.topic collate "C"
  ), won as (
    insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, delivery_id)
    select f.consumer, f.topic, f.id, f.hash, 'open', v_now, f.ref from f where f.consumer is not null
    order by f.consumer, f.topic collate "C", f.id collate "C", f.n on conflict do nothing returning delivery_id
  ), stored as (
    insert into ichido.delivery (id, consumer, topic, message_id, type, version, key, headers, body, state, due_at, sent_at, replaces)
    select f.ref, f.consumer, f.topic, f.id, f.type, f.version, f.key, f.headers, f.body,
      case when f.due_at > v_now then 'delayed' else 'ready' end, case when f.due_at > v_now then f.due_at end, f.sent_at, f.heir_of
    from f where f.ref in (select won.delivery_id from won) order by f.n, f.consumer returning id, consumer
  ), keeps as (
    insert into ichido.kept (topic, message_id, type, version, key, due_at, sent_at, headers, body, hash, replaces)
    select f.topic, f.id, f.type, f.version, f.key, f.due_at, f.sent_at, f.headers, f.body, f.hash, f.heir_of from f where f.consumer is null
    order by f.n on conflict do nothing returning topic, message_id
  ), result as (
    select f.n, count(won.delivery_id)::int as won, count(f.consumer)::int as wanted, case when f.consumer is not null then 0
      when keeps.topic is null or row_number() over (partition by f.topic, f.id order by f.n) > 1 then 2 else 1 end as keep
    from f left join won on won.delivery_id = f.ref
      left join keeps on f.consumer is null and keeps.topic = f.topic collate "C" and keeps.message_id = f.id collate "C"
    group by f.n, f.topic, f.id, f.consumer is not null, case when f.consumer is not null then 0 end, keeps.topic
  ), tally as (
    insert into ichido.counter (consumer, accepted) select stored.consumer, count(*) from stored group by stored.consumer
  )
  select array_agg(r.won order by r.n), array_agg(r.wanted order by r.n), array_agg(r.keep order by r.n),
    (select array_agg(stored.id) from stored)
  into fan_out, subscribers, kept, v_refs from result r;

  if exists (select from unnest(fan_out, subscribers, kept) x(won, wanted, keep) where x.won < x.wanted or x.keep = 2) then
    reused := ichido.find_reused(a_topics, a_ids, a_hashes);
    if reused is not null then
      perform ichido.take_back(v_refs, a_topics, a_ids, kept);
      return;
    end if;
  end if;
  insert into ichido.counter (consumer, sent, resent, fanned_out, kept)
    select '', count(*) filter (where x.won > 0 or x.keep = 1), count(*) filter (where x.won = 0 and x.keep <> 1), sum(x.won),
      count(*) filter (where x.keep = 1)
    from unnest(fan_out, kept) x(won, keep);
end $$;

-- The first id of the list that is known with other contents. An identity that was closed before its message came has no hash: any fit.
create function ichido.find_reused(a_topics text[], a_ids text[], a_hashes bytea[])
returns text language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  v_n bigint;
begin
  for v_n in 1 .. cardinality(a_ids) loop
    if exists (select from ichido.subscription s join ichido.identity i on i.consumer = s.consumer and i.topic = s.topic
        where s.topic = a_topics[v_n] and i.message_id = a_ids[v_n] and i.hash <> a_hashes[v_n] and i.hash <> '')
      or exists (select from ichido.kept k where k.topic = a_topics[v_n] and k.message_id = a_ids[v_n] and k.hash <> a_hashes[v_n]) then
      return a_ids[v_n];
    end if;
  end loop;
  return null;
end $$;

-- Undoes one call of accept: exactly what it inserted.
create function ichido.take_back(a_refs bigint[], a_topics text[], a_ids text[], a_kept int[])
returns void language plpgsql set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  with gone as (delete from ichido.delivery d where d.id = any(a_refs) returning d.id, d.consumer, d.topic, d.message_id),
    uncounted as (insert into ichido.counter (consumer, accepted) select gone.consumer, -count(*) from gone group by gone.consumer)
  delete from ichido.identity i using gone
    where i.consumer = gone.consumer and i.topic = gone.topic and i.message_id = gone.message_id and i.delivery_id = gone.id;
  delete from ichido.kept k using unnest(a_topics, a_ids, a_kept) m(topic, id, keep)
    where m.keep = 1 and k.topic = m.topic collate "C" and k.message_id = m.id collate "C";
end $$;
