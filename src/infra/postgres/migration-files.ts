import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'

/** The folder of the migrations. The relative path is the same from src/ and from dist/. */
export const MIGRATIONS = new URL('../../../prisma/migrations/', import.meta.url)

export interface Migration {
  /** The name of its folder, `<time>_<description>`. */
  readonly name: string
  readonly sql: string
}

/**
 * Reads all migrations, in the order in which they are applied.
 *
 * @throws {Error} if a folder has no readable migration.sql
 */
export async function readMigrations (folder: URL = MIGRATIONS): Promise<Migration[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name).sort()
  return await Promise.all(names.map(async (name) => ({
    name,
    sql: await readFile(new URL(`${encodeURIComponent(name)}/migration.sql`, folder), 'utf8')
  })))
}

/** Prisma's checksum of a migration: SHA-256 of migration.sql, in hex. */
export function checksumOf (sql: string): string {
  return createHash('sha256').update(sql).digest('hex')
}

/** Whether a migration has this checksum with any line endings, because Git may have converted them. */
export function matchesChecksum ({ sql }: Migration, checksum: string): boolean {
  const unix = sql.replaceAll('\r\n', '\n')
  return [sql, unix, unix.replaceAll('\n', '\r\n')].some((text) => checksumOf(text) === checksum)
}

/** The index that a migration builds with CONCURRENTLY, in its only statement; undefined for others. */
export function indexOf ({ sql }: Migration): string | undefined {
  return /^(?:\s|--.*)*CREATE (?:UNIQUE )?INDEX CONCURRENTLY "?(\w+)"?/i.exec(sql)?.[1]
}
