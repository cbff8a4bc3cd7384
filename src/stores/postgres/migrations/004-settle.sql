-- Locks the rows that still carry the epoch, sorted, and counts them.
create function ichido.lock(a_refs bigint[], a_epoch bigint)
returns bigint language plpgsql set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_count bigint;
begin
  select count(*) into v_count from (
    select id from ichido.delivery where id = any(a_refs) and epoch = a_epoch and owner is not null order by id for update) mine;
  return v_count;
end $$;

-- Ends deliveries of one consumer: the rows go where the epoch is still the caller's, the identities get their end, and the followers of
-- held keys go on. Returns how many were the caller's; fewer than asked: roll back.
create function ichido.finish(a_consumer text, a_refs bigint[], a_topics text[], a_ids text[], a_outcomes text[], a_attempts integer[],
  a_epoch bigint, a_at bigint, out finished bigint, out released bigint)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := ichido.moment(a_at);
  v_keys text[];
begin
  with gone as (
    delete from ichido.delivery d where d.id = any(a_refs) and d.epoch = a_epoch and d.owner is not null returning d.key, d.held
  )
  select count(*), array_agg(distinct gone.key) filter (where gone.held and gone.key is not null) into finished, v_keys from gone;
  released := 0;
  if finished <> cardinality(a_refs) then return; end if;
  update ichido.identity i set state = f.outcome, finished_at = v_now, attempts = f.attempt, token = a_epoch
    from unnest(a_topics, a_ids, a_outcomes, a_attempts) as f(topic, id, outcome, attempt)
    where i.consumer = a_consumer and i.topic = f.topic collate "C" and i.message_id = f.id collate "C";
  insert into ichido.counter (consumer, done, duplicate, ignored, stale)
    select a_consumer, count(*) filter (where o = 'done'), count(*) filter (where o = 'duplicate'), count(*) filter (where o = 'ignored'),
      count(*) filter (where o = 'stale') from unnest(a_outcomes) o;
  if v_keys is not null then released := ichido.release_followers(a_consumer, v_keys); end if;
end $$;

-- Puts deliveries of one consumer back: `retry`, `dead`, `passed`, `version` or `released`. Returns those that still carried the epoch.
create function ichido.defer(a_consumer text, a_refs bigint[], a_to text[], a_delays bigint[], a_epoch bigint, a_at bigint, out refs bigint[])
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := ichido.moment(a_at);
  v_keys text[];
begin
  perform ichido.lock(a_refs, a_epoch);
  with put as (
    update ichido.delivery d set
      state = case f.target when 'released' then case when d.solo then 'suspect' else 'ready' end else f.target end,
      due_at = case when f.target = 'retry' then v_now + f.delay * interval '1 millisecond' else d.due_at end,
      attempts = case when f.target in ('released', 'version') then d.attempts - 1 else d.attempts end,
      held = d.held or f.target <> 'released', owner = null, epoch = 0, solo = false
    from unnest(a_refs, a_to, a_delays) as f(ref, target, delay)
    where d.id = f.ref and d.epoch = a_epoch and d.owner is not null
    returning d.id, d.key, f.target
  ), tally as (
    insert into ichido.counter (consumer, retried, dead)
    select a_consumer, count(*) filter (where put.target = 'retry'), count(*) filter (where put.target in ('dead', 'passed')) from put
  )
  select array_agg(put.id), array_agg(distinct put.key) filter (where put.target = 'passed' and put.key is not null) into refs, v_keys from put;
  if v_keys is not null then perform ichido.release_followers(a_consumer, v_keys); end if;
end $$;
