import { readdir, readFile } from 'node:fs/promises'

// prisma/migrations, the same from the sources and from the build: both lie two folders below the project's.

/** The folder of the migrations. */
export const MIGRATIONS = new URL('../../prisma/migrations/', import.meta.url)

export interface Migration {
  /** The name of its folder, `<time>_<what it does>`. */
  readonly name: string
  readonly sql: string
}

/**
 * Reads all migrations in the order in which they apply.
 *
 * @throws {Error} when a folder of migrations has no readable migration.sql
 */
export async function readMigrations (folder: URL = MIGRATIONS): Promise<Migration[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort()
  return await Promise.all(names.map(async (name) => ({
    name,
    sql: await readFile(new URL(`${encodeURIComponent(name)}/migration.sql`, folder), 'utf8')
  })))
}
