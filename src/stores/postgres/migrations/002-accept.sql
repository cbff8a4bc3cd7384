-- Closes the message that a new one replaces, when it is unfinished and nobody runs it, and hands its place on. One that has not come yet is
-- closed in advance, so that it cannot run after its replacement. Follows a chain of edits to its last heir.
create function ichido.take_place(a_consumer text, a_topic text, a_replaced text, a_heir text, a_heir_ref bigint, a_now timestamptz)
returns void language plpgsql set enable_seqscan = off as $$
declare
  v_id text := a_replaced;
  v_identity ichido.identity;
  v_old ichido.delivery;
  v_key text;
begin
  loop
    select * into v_identity from ichido.identity where consumer = a_consumer and topic = a_topic and message_id = v_id;
    if not found then
      insert into ichido.identity (consumer, topic, message_id, hash, state, accepted_at, finished_at, delivery_id, heir)
        values (a_consumer, a_topic, v_id, '', 'replaced', a_now, a_now, 0, a_heir) on conflict do nothing;
      continue when not found;
      insert into ichido.counter (consumer, accepted, replaced) values (a_consumer, 1, 1);
      insert into ichido.counter (consumer, fanned_out) values ('', 1);
      return;
    end if;
    exit when v_identity.state <> 'replaced' or v_identity.heir is null or v_identity.heir = a_heir;
    v_id := v_identity.heir;
  end loop;
  if v_identity.state <> 'open' then return; end if;
  -- Whoever runs it keeps it locked: do not wait for that one. Other locks on it are short.
  select * into v_old from ichido.delivery where id = v_identity.delivery_id;
  if not found or v_old.owner is not null then return; end if;
  select * into v_old from ichido.delivery where id = v_identity.delivery_id for update;
  if not found or v_old.owner is not null then return; end if;
  perform ichido.close_replaced(v_old.id, a_heir, a_now);
  if v_old.state in ('passed', 'delayed') then return; end if;
  select key into v_key from ichido.delivery where id = a_heir_ref;
  if v_key is not distinct from v_old.key then
    update ichido.delivery set pos = v_old.pos, held = true where id = a_heir_ref;
  elsif v_old.key is not null then
    perform ichido.release_followers(a_consumer, array[v_old.key]);
  end if;
end $$;

-- Ends an unfinished delivery as replaced. The caller holds its row.
create function ichido.close_replaced(a_ref bigint, a_heir text, a_now timestamptz)
returns void language plpgsql set enable_seqscan = off as $$
declare
  v_old ichido.delivery;
begin
  delete from ichido.delivery where id = a_ref returning * into v_old;
  update ichido.identity set state = 'replaced', finished_at = a_now, heir = a_heir
    where consumer = v_old.consumer and topic = v_old.topic and message_id = v_old.message_id;
  update ichido."case" set closed_at = a_now, closed_as = 'replaced'
    where consumer = v_old.consumer and topic = v_old.topic and message_id = v_old.message_id and closed_at is null;
  insert into ichido.counter (consumer, replaced, dead)
    values (v_old.consumer, 1, case when v_old.state in ('dead', 'passed') then -1 else 0 end);
end $$;

-- Lets the followers of keys go on, a thousand of each at a time: each of them is held, so the end of the last ones lets the next thousand go.
-- A statement of its own: its snapshot must be younger than the lock on the row that ended.
create function ichido.release_followers(a_consumer text, a_keys text[])
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_key text;
  v_count bigint;
  v_all bigint := 0;
begin
  foreach v_key in array a_keys loop
    update ichido.delivery set state = 'ready', held = true where id = any(array(
      select d.id from ichido.delivery d where d.consumer = a_consumer and d.key = v_key and d.state = 'behind' order by d.pos limit 1000));
    get diagnostics v_count = row_count;
    v_all := v_all + v_count;
  end loop;
  return v_all;
end $$;

-- Fans messages out to the subscriptions of their topics. One statement reads the subscriptions and writes both the deliveries and what is
-- kept, so that no message falls between them when a consumer registers meanwhile. Identities are inserted sorted, and whoever inserts one
-- first wins; deliveries are inserted in the order of the sends. `kept`: 0 no, 1 now, 2 it was kept before. `reused`: this
-- known id came with other contents; then everything that the call wrote is taken back, and the caller's transaction stays usable.
create function ichido.accept(a_topics text[], a_ids text[], a_types text[], a_versions integer[], a_keys text[], a_headers text[],
  a_bodies bytea[], a_hashes bytea[], a_sent bigint[], a_due bigint[], a_delays bigint[], a_replaces text[], a_at bigint,
  out fan_out integer[], out subscribers integer[], out kept integer[], out woken text[], out reused text)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := ichido.moment(a_at);
  v_refs bigint[];
  v_heir record;
begin
  with m as materialized (
    select u.*, coalesce(to_timestamp(u.sent / 1000.0), v_now) as sent_at,
      coalesce(to_timestamp(u.due / 1000.0), v_now + u.delay * interval '1 millisecond') as due_at
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
    select f.n, count(won.delivery_id)::integer as won, count(f.consumer)::integer as wanted, case when f.consumer is not null then 0
      when keeps.topic is null or row_number() over (partition by f.topic, f.id order by f.n) > 1 then 2 else 1 end as keep
    from f left join won on won.delivery_id = f.ref
      left join keeps on f.consumer is null and keeps.topic = f.topic collate "C" and keeps.message_id = f.id collate "C"
    group by f.n, f.topic, f.id, f.consumer is not null, keeps.topic
  ), tally as (
    insert into ichido.counter (consumer, accepted) select stored.consumer, count(*) from stored group by stored.consumer
  )
  select array_agg(r.won order by r.n), array_agg(r.wanted order by r.n), array_agg(r.keep order by r.n),
    (select array_agg(stored.id) from stored), (select array_agg(distinct stored.consumer) from stored)
  into fan_out, subscribers, kept, v_refs, woken from result r;

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
  if exists (select from unnest(a_replaces) x(id) where x.id is not null) then
    for v_heir in select * from ichido.delivery d where d.id = any(v_refs) and d.replaces is not null order by d.id loop
      perform ichido.take_place(v_heir.consumer, v_heir.topic, v_heir.replaces, v_heir.message_id, v_heir.id, v_now);
    end loop;
  end if;
end $$;

-- The first id of the list that is known with other contents. An identity that was closed before its message came has no hash: any fit.
create function ichido.find_reused(a_topics text[], a_ids text[], a_hashes bytea[])
returns text language plpgsql set enable_seqscan = off as $$
declare
  v_id text;
begin
  select m.id into v_id from unnest(a_topics, a_ids, a_hashes) with ordinality as m(topic, id, hash, n)
  where exists (select from ichido.subscription s join ichido.identity i on i.consumer = s.consumer and i.topic = s.topic
      where s.topic = m.topic collate "C" and i.message_id = m.id collate "C" and i.hash <> m.hash and i.hash <> '')
    or exists (select from ichido.kept k where k.topic = m.topic collate "C" and k.message_id = m.id collate "C" and k.hash <> m.hash)
  order by m.n limit 1;
  return v_id;
end $$;

-- Undoes one call of accept: exactly what it inserted.
create function ichido.take_back(a_refs bigint[], a_topics text[], a_ids text[], a_kept integer[])
returns void language plpgsql set enable_seqscan = off as $$
begin
  with gone as (delete from ichido.delivery d where d.id = any(a_refs) returning d.consumer, d.topic, d.message_id),
    uncounted as (insert into ichido.counter (consumer, accepted) select gone.consumer, -count(*) from gone group by gone.consumer)
  delete from ichido.identity i using gone
    where i.consumer = gone.consumer and i.topic = gone.topic and i.message_id = gone.message_id and i.delivery_id = any(a_refs);
  delete from ichido.kept k using unnest(a_topics, a_ids, a_kept) m(topic, id, keep)
    where m.keep = 1 and k.topic = m.topic collate "C" and k.message_id = m.id collate "C";
end $$;
