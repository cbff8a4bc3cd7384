import type { SqlTx } from '../../contracts/store.ts'
import { codeOf, type Tests } from '../test-framework.ts'
import { message, type Scene } from './scene.ts'

async function withTable(scene: Scene): Promise<(tx: SqlTx, id: string, n?: number) => Promise<unknown>> {
  await scene.transaction(session => session.lease('').tx.run('create table note (id text primary key, n integer)'))
  const p = (n: number) => scene.fixture.placeholder(n)
  const sql = `insert into note (id, n) values (${p(1)}, ${p(2)})`
  return async (tx, id, n = 0) => tx.run(sql, id, n)
}

async function notes(scene: Scene): Promise<string[]> {
  const rows = await scene.transaction(session =>
    session.lease('').tx.all<{ id: string }>('select id from note order by id'),
  )
  return rows.map(row => row.id)
}

export const transactions: Tests<Scene> = {
  async 'commit what returned and undo what threw'(scene) {
    const insert = await withTable(scene)
    const value = await scene.transaction(async session => {
      const lease = session.lease('billing')
      await insert(lease.tx, 'kept')
      scene.expect(lease.close()).toBe(null)
      return 42
    })
    scene.expect(value).toBe(42)
    const thrown = scene.transaction(async session => {
      await insert(session.lease('billing').tx, 'undone')
      throw new Error('as it came')
    })
    scene.expect(await codeOf(() => thrown)).toBe('Error: as it came')
    scene.expect(await notes(scene)).toEqual(['kept'])
  },
  async 'the facade runs, gets and reads all'(scene) {
    const insert = await withTable(scene)
    await scene.transaction(async session => {
      const { tx } = session.lease('billing')
      scene.expect(await insert(tx, 'a', 1)).toEqual({ changes: 1 })
      await insert(tx, 'b', 2)
      const p1 = scene.fixture.placeholder(1)
      scene.expect(await tx.run(`update note set n = n + 1 where n > ${p1}`, 0)).toEqual({ changes: 2 })
      const row = await tx.get<{ id: string; n: unknown }>(`select id, n from note where id = ${p1}`, 'b')
      scene.expect([row?.id, Number(row?.n)]).toEqual(['b', 3])
      scene.expect(await tx.get('select id from note where n > 99')).toBe(undefined)
      scene
        .expect((await tx.all<{ id: string }>('select id from note order by id')).map(({ id }) => id))
        .toEqual(['a', 'b'])
    })
  },
  async 'a closed facade writes nothing more'(scene) {
    const insert = await withTable(scene)
    let left: SqlTx | undefined
    await scene.transaction(async session => {
      const first = session.lease('billing')
      left = first.tx
      await insert(first.tx, 'in time')
      scene.expect(first.close()).toBe(null)
      scene.expect(await codeOf(() => insert(first.tx, 'too late'))).toBe('TX_CLOSED')
      scene.expect(await codeOf(() => first.tx.savepoint(() => 1))).toBe('TX_CLOSED')
      scene.expect(await codeOf(async () => first.tx.advance('e', 1))).toBe('TX_CLOSED')
      const second = session.lease('billing')
      await insert(second.tx, 'next')
      scene.expect(second.close()).toBe(null)
    })
    scene.expect(await codeOf(() => left && insert(left, 'after the commit'))).toBe('TX_CLOSED')
    scene.expect(await notes(scene)).toEqual(['in time', 'next'])
  },
  async 'a failed statement is remembered, although the handler swallowed it'(scene) {
    const insert = await withTable(scene)
    const swallowed = scene.transaction(async session => {
      const lease = session.lease('billing')
      await insert(lease.tx, 'twice')
      await insert(lease.tx, 'twice').catch(() => {})
      const fault = lease.close()
      scene.expect(fault?.code).toBe('TX_STATEMENT_FAILED')
      throw fault
    })
    scene.expect(await codeOf(() => swallowed)).toBe('TX_STATEMENT_FAILED')
    scene.expect(await notes(scene)).toEqual([])
  },
  async 'a part that may fail is undone alone, and the transaction goes on'(scene) {
    const insert = await withTable(scene)
    await scene.transaction(async session => {
      const lease = session.lease('billing')
      await insert(lease.tx, 'before')
      const failed = lease.tx.savepoint(async () => {
        await insert(lease.tx, 'inside')
        await insert(lease.tx, 'before')
      })
      scene.expect(await codeOf(() => failed)).not.toBe('nothing')
      const value = await lease.tx.savepoint(async () => {
        await insert(lease.tx, 'nested 1')
        await lease.tx.savepoint(() => Promise.reject(new Error('inner'))).catch(() => {})
        return 7
      })
      scene.expect(value).toBe(7)
      await insert(lease.tx, 'after')
      scene.expect(lease.close()).toBe(null)
    })
    scene.expect(await notes(scene)).toEqual(['after', 'before', 'nested 1'])
  },
  async 'transaction control is refused, however it is written'(scene) {
    const insert = await withTable(scene)
    const forbidden = [
      'commit',
      'COMMIT',
      ' \n rollback',
      '-- hm\nbegin',
      '/* a */ /* b */ savepoint x',
      'end',
      'release x',
    ]
    await scene.transaction(async session => {
      const lease = session.lease('billing')
      await insert(lease.tx, 'kept')
      for (const sql of forbidden) scene.expect(await codeOf(() => lease.tx.run(sql)), sql).toBe('TX_CONTROL')
      await insert(lease.tx, 'also kept')
      lease.close()
    })
    scene.expect(await notes(scene)).toEqual(['also kept', 'kept'])
  },
  async 'a savepoint of the session undoes its part and rethrows'(scene) {
    const insert = await withTable(scene)
    await scene.subscribe('billing')
    await scene.transaction(async session => {
      const part = session.savepoint(async () => {
        await insert(session.lease('billing').tx, 'undone')
        await session.deliveries.accept([message('undone')])
        throw new Error('one of the batch')
      })
      scene.expect(await codeOf(() => part)).toBe('Error: one of the batch')
      await session.savepoint(async () => {
        await insert(session.lease('billing').tx, 'kept')
        await session.deliveries.accept([message('kept')])
      })
    })
    scene.expect([await notes(scene), await scene.drain()]).toEqual([['kept'], ['kept']])
  },
  async 'what was sent in a part that failed is neither there nor counted'(scene) {
    await scene.subscribe('billing')
    await scene.transaction(async session => {
      const lease = session.lease('billing')
      const part = lease.tx.savepoint(async () => {
        await session.deliveries.accept([message('undone')])
        throw new Error('part')
      })
      scene.expect(await codeOf(() => part)).toBe('Error: part')
      await session.deliveries.accept([message('kept')])
      scene.expect(lease.close()).toBe(null)
    })
    scene.expect(await scene.drain()).toEqual(['kept'])
    scene.expect(await scene.counters('')).toMatchObject({ sent: 1, fannedOut: 1 })
  },
}

function advance(
  scene: Scene,
  scope: string,
  entity: string,
  version: number | string,
  tie?: string,
): Promise<boolean> {
  return scene.transaction(async session => {
    const lease = session.lease(scope)
    const applied = await lease.tx.advance(entity, version, tie)
    scene.expect(lease.close()).toBe(null)
    return applied
  })
}

export const guards: Tests<Scene> = {
  async 'a version is applied once, and never after a greater one'(scene) {
    const seen: boolean[] = []
    for (const version of [5, 5, 4, 6, 5, 7.5, 7, -1, 10, 9]) seen.push(await advance(scene, 'billing', 'e', version))
    scene.expect(seen).toEqual([true, false, false, true, false, true, false, false, true, false])
  },
  async 'equal versions are told apart by the tie breaker'(scene) {
    const seen: boolean[] = []
    for (const tie of ['b', 'b', 'a', 'c', 'B']) seen.push(await advance(scene, 'billing', 'e', 1, tie))
    scene.expect(seen).toEqual([true, false, false, true, false])
    scene.expect(await advance(scene, 'billing', 'e', 2, 'a')).toBe(true)
  },
  async 'texts compare byte by byte, numbers by size'(scene) {
    const texts = ['Z', 'a', 'z', 'é', '\u{1F600}', '\uFFFD']
    const seen: boolean[] = []
    for (const version of texts) seen.push(await advance(scene, 'billing', 'text', version))
    scene.expect(seen).toEqual([true, true, true, true, true, false])
    scene.expect(await advance(scene, 'billing', 'size', 9)).toBe(true)
    scene.expect(await advance(scene, 'billing', 'size', 10)).toBe(true)
    scene.expect(await advance(scene, 'billing', 'size', 1e300)).toBe(true)
    scene.expect(await advance(scene, 'billing', 'size', Number.MAX_SAFE_INTEGER)).toBe(false)
    scene.expect(await advance(scene, 'billing', 'date', '2026-01-31T23:59:59Z')).toBe(true)
    scene.expect(await advance(scene, 'billing', 'date', '2026-02-01T00:00:00Z')).toBe(true)
  },
  async 'belong to one consumer and one entity'(scene) {
    scene.expect(await advance(scene, 'billing', 'e', 5)).toBe(true)
    scene.expect(await advance(scene, 'shipping', 'e', 5)).toBe(true)
    scene.expect(await advance(scene, 'billing', 'E', 5)).toBe(true)
    scene.expect(await advance(scene, 'billing', 'e', 5)).toBe(false)
  },
  async 'are part of the transaction'(scene) {
    const undone = scene.transaction(async session => {
      scene.expect(await session.lease('billing').tx.advance('e', 5)).toBe(true)
      throw new Error('undo')
    })
    await undone.catch(() => {})
    scene.expect(await advance(scene, 'billing', 'e', 4)).toBe(true)
  },
  async 'refuse a version that cannot be compared'(scene) {
    scene.expect(await codeOf(() => advance(scene, 'billing', 'e', Number.NaN))).not.toBe('nothing')
    scene.expect(await advance(scene, 'billing', 'e', 1)).toBe(true)
  },
}
