import { newMigration } from './migrations.ts'
import { MIGRATIONS } from '../src/infra/postgres/migration-repository.ts'

// npm run db:migration -- NAME: writes a migration with the changes of schema.prisma.

try {
  const written = await newMigration({
    name: process.argv.slice(2).join(' '),
    schema: new URL('schema.prisma', import.meta.url),
    folder: MIGRATIONS
  })
  process.stdout.write(`Wrote prisma/migrations/${written}/migration.sql: read it before you apply it\n`)
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
