import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../../helpers/service.ts'
import { administer, users } from '../../helpers/cli.ts'

t.test('the users commands work while the service runs on its embedded database', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
  t.match(await users(t, env, ['list']), {
    code: 1,
    stderr: /^DATA_DIR \S+ holds no database: .* npm run landfall -- migrate\n$/
  }, 'there is no database yet')
  await administer(t, env)
})
