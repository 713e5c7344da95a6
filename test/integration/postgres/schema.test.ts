import { readdir } from 'node:fs/promises'
import t from 'tap'
import { newMigration } from '../../../prisma/migrations.ts'
import { MIGRATIONS } from '../../../src/infra/postgres/migration-repository.ts'

t.test('the migrations produce the schema of schema.prisma', async (t) => {
  const schema = new URL('../schema.prisma', MIGRATIONS)
  const before = await readdir(MIGRATIONS)
  await t.rejects(
    newMigration({ name: 'nothing', schema, folder: MIGRATIONS, now: new Date('2999-01-01') }),
    { message: /nothing to write/ }
  )
  t.same(await readdir(MIGRATIONS), before)
})
