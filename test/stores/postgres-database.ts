import { randomUUID } from 'node:crypto'
import pg from 'pg'

export interface TestDatabase {
  readonly url: string
  /** A pool that `drop` ends. Errors of idle connections are for the store to hear. */
  pool(options?: pg.PoolConfig): pg.Pool
  /** Empties every table of ichido but those of the schema itself, and drops what tests made beside it. */
  clear(): Promise<void>
  drop(): Promise<void>
}

/** A new database on the server that the tests run on. */
export async function createDatabase(server: string): Promise<TestDatabase> {
  const name = `ichido_${randomUUID().replaceAll('-', '')}`
  await onServer(server, `create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  const pools: pg.Pool[] = []
  const pool = (options: pg.PoolConfig = {}) => {
    const made = new pg.Pool({ connectionString: url.href, max: 10, ...options })
    made.on('error', () => {})
    // A connection that is closing when its database is dropped hears of it, and has nobody else to tell.
    made.on('connect', client => client.on('error', () => {}))
    pools.push(made)
    return made
  }
  return {
    url: url.href,
    pool,
    clear: () => onServer(url.href, clearing),
    async drop() {
      for (const made of pools) await made.end().catch(() => {})
      await onServer(server, `drop database ${name} with (force)`)
    },
  }
}

const clearing = `do $$ declare own record; begin
  for own in select schemaname, tablename from pg_tables
    where schemaname = 'public' or (schemaname = 'ichido' and tablename not in ('meta', 'migration'))
  loop
    if own.schemaname = 'public' then execute format('drop table public.%I', own.tablename);
    else execute format('delete from ichido.%I', own.tablename); end if;
  end loop;
end $$`

async function onServer(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
