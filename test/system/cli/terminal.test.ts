import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { createDatabase, query } from '../../helpers/servers.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { LANDFALL, landfall } from '../../helpers/cli.ts'

t.test("a command on a terminal asks twice for a new password and doesn't show it", async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), UPLOADS_DIR: temporaryFolder(t) }
  t.equal((await landfall(env, ['migrate'])).code, 0)
  const create = async (email: string, ...answers: string[]) => {
    const { PATH = '', HOME = '/', TERM = 'xterm' } = process.env
    const child = spawn('script', [
      '-qec',
      `'${process.execPath}' '${LANDFALL}' users create ${email}`,
      '/dev/null'
    ], { cwd: PROJECT, env: { PATH, HOME, TERM, ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
    let shown = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text
      // Each password is typed after its prompt.
      if (/(password|again): $/.test(shown)) child.stdin.write(answers.shift() ?? '')
    })
    await once(child, 'close')
    return { code: child.exitCode, shown }
  }
  const done = await create('typed@example.com', `${PASSWORD}x\u007f\r`, `${PASSWORD}\r`)
  t.equal(done.code, 0, done.shown)
  t.match(done.shown, /^New password: \r\nRepeat password: \r\nCreated account 1, typed@example\.com\r\n$/)
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
  const command = ['script', '-qec', `'${process.execPath}' '${LANDFALL}' serve`, '/dev/null'] as const
  t.match(await landfall({ PORT: 'x' }, [], { command }), {
    code: 1,
    stdout: "Landfall can't start with these settings:\r\nPORT must be a whole number from 0 to 65535\r\n"
  })
})
