import { appendFile, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { newMigration } from '../../../prisma/migrations.ts'
import { applyMigrations } from '../../../src/infra/postgres/migrate.ts'
import { readMigrations } from '../../../src/infra/postgres/migration-repository.ts'
import { createDatabase, type Teardown } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'

const HEAD =
  'generator client {\n  provider = "prisma-client"\n  output = "x"\n}\n\ndatasource db {\n  provider = ' +
  '"postgresql"\n}\n'

function project (t: Teardown) {
  const path = temporaryFolder(t)
  const schema = join(path, 'schema.prisma')
  return {
    path,
    folder: pathToFileURL(`${path}/migrations/`),
    schema: pathToFileURL(schema),
    define: async (models: string) => await writeFile(schema, `${HEAD}\n${models}`)
  }
}

t.test('a new migration contains the changes since the last one, and leaves a manual CHECK alone', async (t) => {
  const { folder, schema, define, path } = project(t)
  await define('model Note {\n  id Int @id\n}\n')
  t.equal(
    await newMigration({ name: 'Create notes', schema, folder, now: new Date('2026-01-02T03:04:05.678Z') }),
    '20260102030405_create_notes'
  )
  await appendFile(
    new URL('20260102030405_create_notes/migration.sql', folder),
    '\nALTER TABLE "Note" ADD CONSTRAINT "positive" CHECK ("id" > 0);\n'
  )
  await t.rejects(newMigration({ name: 'nothing', schema, folder, now: new Date('2026-01-03') }), {
    message: /nothing to write/
  })
  t.match(await readFile(new URL('migration_lock.toml', folder), 'utf8'), 'provider = "postgresql"')

  await define('model Note {\n  id Int @id\n  text String? @unique\n}\n')
  await t.rejects(newMigration({ name: 'early', schema, folder, now: new Date('2026-01-01') }), {
    message: /dated later/
  })
  const second = await newMigration({ name: 'note-text', schema, folder, now: new Date('2026-01-03') })
  const [, added] = await readMigrations(folder)
  t.equal(added?.name, second)
  t.equal(second, '20260103000000_note_text')
  t.match(added?.sql, /ALTER TABLE "Note" ADD COLUMN {5}"text" TEXT;/)
  t.match(added?.sql, /CREATE UNIQUE INDEX "Note_text_key"/)
  t.notMatch(added?.sql, /CREATE TABLE|CONSTRAINT/)

  t.same((await readdir(join(path, 'migrations'))).sort(), [
    '20260102030405_create_notes',
    second,
    'migration_lock.toml'
  ])
  t.same(
    await applyMigrations(await createDatabase(t), { info () {} }, {
      migrations: await readMigrations(folder)
    }),
    ['20260102030405_create_notes', second]
  )
})

t.test('an invalid name, schema or earlier migration makes the script write nothing', async (t) => {
  const { folder, schema, define, path } = project(t)
  await define('model Note {\n  id Int @id\n}\n')
  for (const name of ['', '  ', '../up', 'a/b', 'ä', 'x'.repeat(101), '_x']) {
    await t.rejects(newMigration({ name, schema, folder }), { message: /npm run db:migration -- / })
  }
  await define('model Note {\n  id Nothing @id\n}\n')
  await t.rejects(newMigration({ name: 'x', schema, folder }), { message: /Type "Nothing" is neither/ })
  t.same(await readdir(path), ['schema.prisma'])
})
