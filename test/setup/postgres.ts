import { type PostgresServer, PostgresUnavailable, startPostgres } from '../../scripts/services/postgres.ts'

/**
 * Gives every test the URL of a real PostgreSQL in `ICHIDO_TEST_POSTGRES`: the server that variable already names, or
 * one started here (version `ICHIDO_TEST_POSTGRES_VERSION`, 18 by default) and stopped at the end.
 */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.ICHIDO_TEST_POSTGRES) return undefined
  const version = Number(process.env.ICHIDO_TEST_POSTGRES_VERSION ?? 18)
  let server: PostgresServer
  try {
    // A locale that does not sort by bytes: code that relies on the order of bytes must say COLLATE "C".
    server = await startPostgres({ version, icuLocale: 'en' })
  } catch (error) {
    if (!(error instanceof PostgresUnavailable) || process.env.CI) throw error
    console.warn(`The tests on PostgreSQL are skipped: ${error.message}`)
    return undefined
  }
  process.env.ICHIDO_TEST_POSTGRES = server.url
  return async () => {
    delete process.env.ICHIDO_TEST_POSTGRES
    await server.stop()
  }
}
