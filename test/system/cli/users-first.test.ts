import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { createDatabase, createMigratedDatabase, query } from '../../helpers/servers.ts'
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
    "INSERT INTO users (email, password_hash) SELECT 'user-' || n || E'\\u001b[2J', '' FROM " +
      'generate_series(1, 1001) n'
  )
  const listed = await users(t, env, ['list'])
  t.equal(listed.stdout.split('\n').length, 1 + 1002 + 1)
  t.notMatch(listed.stdout, '\u001b')
  t.equal(JSON.parse((await users(t, env, ['list', '--json'])).stdout).length, 1002)
  for (
    const [input, said] of [['one line\nand another', /one line/], [
      Uint8Array.of(0xff, 0xfe, 0x80),
      /not UTF-8/
    ], ['', /Password can't be blank/]] as const
  ) {
    t.match(await landfall(env, ['users', 'create', 'second@example.com'], { input }), {
      code: 1,
      stdout: '',
      stderr: said
    })
  }
})

t.test('a deletion tells the user by mail, and says which files are left to the service', async (t) => {
  const env = {
    DATABASE_URL: await createMigratedDatabase(t),
    UPLOADS_DIR: temporaryFolder(t),
    BASE_URL: 'https://landfall.example.com',
    SMTP_URL: 'smtp://127.0.0.1:1',
    MAIL_FROM: 'noreply@example.com'
  }
  t.match(await users(t, env, ['create', 'first@example.com'], PASSWORD), { code: 0 })
  const [gone, stuck] = ['gone', 'stuck'].map((name) => name.padStart(22, 'x'))
  await query(
    env.DATABASE_URL,
    `INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
    SELECT gen_random_uuid(), id, key, '', '', 1, '' FROM users, unnest(ARRAY['${gone}', '${stuck}']) key`
  )
  await mkdir(join(env.UPLOADS_DIR, stuck as string)) // a folder can't be removed like a file
  t.match(await users(t, env, ['delete', 'first@example.com']), {
    code: 1,
    stdout: /^Deleted account \d+, first@example\.com: 0 pages, 1 asset\n$/,
    stderr:
      /^1 file not found in .*\n1 file could not be removed from .*\. The service tries again every 30 seconds\.\n$/
  })
  t.same(await query(env.DATABASE_URL, 'SELECT recipient, kind, user_id FROM mails'), [
    { recipient: 'first@example.com', kind: 'account_deleted', user_id: null }
  ])
  t.same(await query(env.DATABASE_URL, 'SELECT storage_key FROM assets'), [{ storage_key: stuck }])
  t.match(await users(t, env, ['list']), { code: 0, stdout: 'There are no accounts yet\n' })
  t.match(await users(t, env, ['delete', 'first@example.com']), { code: 1, stderr: /^There is no account / })
  t.match(await users(t, env, ['create', 'first@example.com'], PASSWORD), { code: 0 })
})
