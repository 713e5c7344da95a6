import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { createDatabase, type Teardown } from '../../helpers/servers.ts'
import { databaseApp } from '../../helpers/database-app.ts'

async function start (t: Teardown, settings: Record<string, string>): Promise<FastifyInstance> {
  const app = databaseApp(loadConfig({ JWT_SECRET: 'x'.repeat(32), ...settings }))
  t.teardown(async () => await app.close())
  await app.ready()
  return app
}

t.test('with DATABASE_URL, app.database is that PostgreSQL database, with all migrations applied', async (t) => {
  const url = await createDatabase(t)
  const app = await start(t, { DATABASE_URL: url })
  const user = await app.database.user.create({ data: { email: 'a@example.com', passwordHash: 'x' } })
  t.equal(user.id, 1)
  const [session] = await app.database.$queryRaw<{ name: string, limit: string, zone: string }[]>`
    SELECT current_setting('application_name') AS name, current_setting('statement_timeout') AS limit, current_setting('TimeZone') AS zone`
  t.same(session, { name: 'landfall', limit: '3600ms', zone: 'UTC' })
  const replica = await start(t, { DATABASE_URL: url })
  t.equal(await replica.database.user.count(), 1, 'a second replica sees the same data')
})

t.test('without DATABASE_URL, app.database is the embedded PostgreSQL, which keeps its data', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'landfall-data-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const DATA_DIR = join(folder, 'data')
  const first = await start(t, { DATA_DIR })
  await first.database.user.create({ data: { email: 'a@example.com', passwordHash: 'x' } })
  await t.rejects(first.database.user.create({ data: { email: 'a@example.com', passwordHash: 'x' } }), {
    code: 'P2002'
  })
  const counts = await Promise.all(Array.from({ length: 20 }, async (_, index) =>
    index % 2 === 0
      ? await first.database.user.count()
      : await first.database.session.create({ data: { userId: 1, expiresAt: new Date() } }).then(() => 1)))
  t.ok(counts.every((count) => count === 1))
  const failure = new Error('the transaction fails')
  await t.rejects(
    first.database.$transaction(async (transaction) => {
      await transaction.user.create({ data: { email: 'b@example.com', passwordHash: 'x' } })
      throw failure
    }),
    failure
  )
  t.equal(await first.database.user.count(), 1, 'a transaction that fails changes nothing')
  await first.close()
  t.notOk(existsSync(join(DATA_DIR, 'lock')))

  const second = await start(t, { DATA_DIR, MIGRATE_ON_START: 'false' })
  t.equal(await second.database.session.count(), 10)
})
