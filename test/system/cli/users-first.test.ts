import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { createDatabase, query } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { landfall, users } from '../../helpers/cli.ts'

t.test('an account can be created before the first start, after landfall migrate', async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), UPLOADS_DIR: temporaryFolder(t) }
  t.match(await users(t, env, ['list']), {
    code: 1,
    stderr: /lacks migrations? .*: run npm run landfall -- migrate/
  })
  t.match(await landfall(env, ['migrate']), { code: 0, stdout: /^Applied migrations? \d+_init/ })
  t.match(await users(t, env, ['list']), { code: 0, stdout: 'There are no accounts yet\n' })
  t.match(await users(t, env, ['list', '--json']), { code: 0, stdout: '[]\n' })
  t.match(await users(t, env, ['create', 'first@example.com'], PASSWORD), { code: 0 })
  // More accounts than one batch, and an address with terminal control characters.
  await query(
    env.DATABASE_URL,
    "INSERT INTO users (email, password_hash) SELECT 'user-' || n || E'\\u001b[2J', '' FROM generate_series(1, 1001) n"
  )
  const listed = await users(t, env, ['list'])
  t.equal(listed.stdout.split('\n').length, 1 + 1002 + 1)
  t.notMatch(listed.stdout, '\u001b')
  t.equal(JSON.parse((await users(t, env, ['list', '--json'])).stdout).length, 1002)
  for (
    const [input, said] of [['one line\nand another', /one line/], [Uint8Array.of(0xff, 0xfe, 0x80),
      /not UTF-8/], ['', /Password can't be blank/]] as const
  ) {
    t.match(await landfall(env, ['users', 'create', 'second@example.com'], { input }), {
      code: 1,
      stdout: '',
      stderr: said
    })
  }
})
