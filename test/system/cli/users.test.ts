import t from 'tap'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { administer } from '../../helpers/cli.ts'

t.test('the users commands work while the service runs on PostgreSQL and Redis', async (t) => {
  await administer(t, {
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET: 'x'.repeat(32),
    UPLOADS_DIR: temporaryFolder(t)
  })
})
