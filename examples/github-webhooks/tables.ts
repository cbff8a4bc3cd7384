import { DatabaseSync } from 'node:sqlite'

/** The user's own tables. The effects have no unique constraint: a double effect would show. */
export function createTables(path: string): void {
  const database = new DatabaseSync(path)
  database.exec(`
    pragma journal_mode = wal;
    create table if not exists mirror (entity text primary key, title text, state text, updated_at text, deleted integer) without rowid;
    create table if not exists mirror_effect (id integer primary key, delivery text not null);
    create table if not exists repository_log
      (id integer primary key, repository text, delivery text not null, event text not null, action text, licence text);`)
  database.close()
}
