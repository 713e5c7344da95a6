import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { createDatabase, query } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { landfall, onTerminal } from '../../helpers/cli.ts'

t.test("a command on a terminal asks twice for a new password and doesn't show it", async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), UPLOADS_DIR: temporaryFolder(t) }
  t.equal((await landfall(env, ['migrate'])).code, 0)
  const create = async (email: string, ...answers: string[]) =>
    await onTerminal(t, env, ['users', 'create', email], answers)
  const done = await create('typed@example.com', `${PASSWORD}x\u007f\r`, `${PASSWORD}\r`)
  t.equal(done.code, 0, done.shown)
  t.match(done.shown, /^New password: \nRepeat password: \nCreated account 1, typed@example\.com\n$/)
  t.match(await create('other@example.com', `${PASSWORD}\r`, `${PASSWORD}!\r`), {
    code: 1,
    shown: /The two passwords differ: nothing was changed/
  })
  t.match(await create('other@example.com', 'half\u0003'), {
    code: 1,
    shown: /Interrupted: nothing was changed/
  })
  t.match(await query(env.DATABASE_URL, 'SELECT email FROM users'), [{ email: 'typed@example.com' }])
})

t.test('a failed start on a terminal says why in plain lines', async (t) => {
  t.match(await onTerminal(t, { PORT: 'x' }, ['serve']), {
    code: 1,
    shown: "Landfall can't start with these settings:\nPORT must be a whole number from 0 to 65535\n"
  })
})
