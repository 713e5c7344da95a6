import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { landfall } from '../../helpers/cli.ts'
import { call, Owner } from '../../helpers/client.ts'
import { secretsIn } from '../../helpers/secrets.ts'
import { claimRedis, createDatabase, createMigratedDatabase, query } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'

// The commands for accounts, and those that take pages and assets down.

const NEW_PASSWORD = 'brand-new staple 4711'
/** Runs a `users` command, and checks that its output contains no secret. */
const users = async (t: Test, env: Record<string, string>, args: string[], input = '') => {
  const outcome = await landfall(env, ['users', ...args], { input })
  t.same(secretsIn(outcome.stdout + outcome.stderr, env, { NEW_PASSWORD }), [], 'no secret is printed')
  return outcome
}
const signIn = async (url: string, email: string, password: string) =>
  (await call('POST', `${url}/auth/sign_in`, { json: { user: { email, password } } })).status

t.test('the users commands work while the service runs', async (t) => {
  const env = {
    DATABASE_URL: await createMigratedDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET: 'x'.repeat(32),
    UPLOADS_DIR: temporaryFolder(t)
  }
  const { url } = await startService(t, env)
  const owner = await Owner.signUp(url)
  await owner.createPage(url, '{}')

  t.match(await users(t, env, ['create', ' New@Example.com'], `${PASSWORD}\n`), {
    code: 0,
    stdout: /^Created account \d+, new@example\.com\n$/,
    stderr: ''
  })
  t.equal(await signIn(url, 'new@example.com', PASSWORD), 200)
  const listed = await users(t, env, ['list', '--json'])
  const accounts = JSON.parse(listed.stdout)
  t.match(accounts, [
    {
      email: owner.email,
      created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
      landing_pages: 1,
      assets: 0,
      sessions: 1
    },
    { email: 'new@example.com', landing_pages: 0, assets: 0, sessions: 1 }
  ])
  t.match(
    (await users(t, env, ['list'])).stdout,
    new RegExp(`^ID +EMAIL +CREATED +PAGES +ASSETS +SESSIONS\\n${
      accounts[0].id
    } +${owner.email} +\\S+ \\S+ +1 +0 +1\\n`)
  )

  t.match(await users(t, env, ['create', 'new@example.com'], PASSWORD), {
    code: 1,
    stdout: '',
    stderr: 'Email has already been taken\n'
  })
  t.match(await users(t, env, ['create', 'no address'], 'short'), {
    code: 1,
    stderr: 'Email is invalid; Password is too short (minimum is 8 characters)\n'
  })

  // An invalid password changes nothing. A new password ends all sessions.
  t.match(await users(t, env, ['set-password', owner.email], `${owner.email}\n`), {
    code: 1,
    stderr: "Password can't be the same as the email\n"
  })
  t.equal(await owner.accessStatus(url), 200)
  // Failed sign-ins don't count any more.
  for (let n = 0; n < 10; n++) t.equal(await signIn(url, owner.email, 'wrong password'), 401)
  t.equal(await signIn(url, owner.email, PASSWORD), 429)
  t.match(await users(t, env, ['set-password', owner.email.toUpperCase(), '--json'], `${NEW_PASSWORD}\r\n`), {
    code: 0,
    stdout: `{"id":${accounts[0].id},"email":"${owner.email}","sessions_ended":1}\n`,
    stderr: ''
  })
  t.equal(await owner.accessStatus(url), 401)
  t.equal(await owner.refresh(url), 401)
  t.equal(await signIn(url, owner.email, PASSWORD), 401)
  t.equal(await signIn(url, owner.email, NEW_PASSWORD), 200)

  const stays = await Owner.signUp(url)
  t.match(await users(t, env, ['sign-out', owner.email]), {
    code: 0,
    stdout: `Signed out ${owner.email}: 1 session ended\n`
  })
  t.equal(await stays.accessStatus(url), 200, 'other accounts stay signed in')
  t.equal(await signIn(url, owner.email, NEW_PASSWORD), 200, 'the account can still sign in')
  t.match(await users(t, env, ['set-password', 'nobody@example.com'], NEW_PASSWORD), {
    code: 1,
    stdout: '',
    stderr: /^There is no account nobody@example\.com \(npm run landfall -- users list/
  })
  await takeDown(t, env, url)
})

/** Tests the commands that delete, while the service has everything in its cache. */
async function takeDown (t: Test, env: Record<string, string>, url: string): Promise<void> {
  const owner = await Owner.signUp(url)
  const [first, second] = [await owner.createPage(url, '{"n":1}'), await owner.createPage(url, '{"n":2}')]
  const upload = async () => await owner.store(url, Buffer.from('abc'))
  const [byId, byUrl, kept] = [await upload(), await upload(), await upload()]
  const statusOf = async (target: string) => (await call('GET', target)).status
  const statusOfPage = async ({ public_id: publicId }: { public_id: string }) =>
    await statusOf(`${url}/landing_pages/${publicId}`)
  for (const page of [first, second]) t.equal(await statusOfPage(page), 200)

  t.same(await landfall(env, ['pages', 'take-down', first.public_id]), {
    code: 0,
    stdout: `Deleted page ${first.public_id}\n`,
    stderr: ''
  })
  t.equal(await statusOfPage(first), 404, 'at once')
  t.equal(await statusOfPage(second), 200)
  t.same(await landfall(env, ['pages', 'take-down', first.public_id]), {
    code: 1,
    stdout: '',
    stderr: `There is no page ${first.public_id}: give the last part of its public URL\n`
  })

  t.match(await landfall(env, ['assets', 'take-down', byId.id]), {
    code: 0,
    stdout: `Deleted asset ${byId.id}, `,
    stderr: ''
  })
  t.match(await landfall(env, ['assets', 'take-down', byUrl.path.slice('/uploads/'.length)]), {
    code: 0,
    stderr: ''
  })
  t.same(await Promise.all([byId, byUrl, kept].map(async (asset) => await statusOf(asset.url))), [
    404,
    404,
    200
  ])
  t.match(await landfall(env, ['assets', 'take-down', byId.id]), { code: 1, stderr: /^There is no asset / })
  t.match(
    await landfall({ ...env, UPLOADS_DIR: join(tmpdir(), 'missing') }, ['assets', 'take-down', kept.id]),
    {
      code: 1,
      stdout: '',
      stderr: /^UPLOADS_DIR \S+ can't be used: ENOENT\n$/
    },
    'nothing is deleted if the files cannot be'
  )

  const audit: object[] = []
  const { code, stdout, stderr } = await landfall(env, ['users', 'delete', owner.email, '--json'], { audit })
  t.match({ code, stderr }, { code: 0, stderr: '' })
  const { id, ...deleted } = JSON.parse(stdout)
  t.same(deleted, { email: owner.email, landing_pages: 1, assets: 1 })
  t.match(audit, [{ audit: 'command', command: 'users delete', user: id, pages: 1, assets: 1, uid: Number }])
  t.equal(audit.length, 1)
  t.notMatch(JSON.stringify(audit), owner.email)
  t.same([await statusOfPage(second), await statusOf(kept.url)], [404, 404])
  t.equal(await owner.accessStatus(url), 401)
  t.match(await landfall(env, ['verify']), { code: 0 }, 'no file is left')
}

t.test('the users commands work while the service runs on its embedded database', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
  t.match(await users(t, env, ['list']), {
    code: 1,
    stderr: /^DATA_DIR \S+ holds no database: .* npm run landfall -- migrate\n$/
  }, 'there is no database yet')
  const service = await startService(t, env)
  const { url } = service
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, '{}')
  const isRead = async () => (await call('GET', `${url}/landing_pages/${page.public_id}`)).status
  t.equal(await isRead(), 200)
  t.match(await users(t, env, ['create', 'new@example.com'], PASSWORD), { code: 0, stderr: '' })
  t.equal(await signIn(url, 'new@example.com', PASSWORD), 200)
  t.match(await landfall(env, ['pages', 'take-down', page.public_id]), { code: 0, stderr: '' })
  t.equal(await isRead(), 404, 'at once')
  t.match(await users(t, env, ['delete', owner.email]), { code: 0 })
  t.equal(await owner.accessStatus(url), 401)
  t.equal(await service.end('SIGTERM'), 0)
  t.match(await users(t, env, ['list']), { code: 0, stdout: /\n\d+ +new@example\.com .*\n$/ })
  t.match(await landfall(env, ['migrate', '--status']), { code: 0, stdout: /_init +applied$/m })
})

t.test('an account can be created before the first start, after landfall migrate', async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), UPLOADS_DIR: temporaryFolder(t) }
  t.match(await users(t, env, ['list']), {
    code: 1,
    stderr: /lacks migrations? .*: run npm run landfall -- migrate/
  })
  t.match(await landfall(env, ['migrate']), { code: 0, stdout: /^Applied migrations? \d+_init/ })
  t.match(await users(t, env, ['list']), { code: 0, stdout: 'There are no accounts yet\n' })
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
      /^1 file not found in .*\n1 file could not be removed from .*\. The service tries again every ten seconds\.\n$/
  })
  t.same(await query(env.DATABASE_URL, 'SELECT recipient, kind, user_id FROM mails'), [
    { recipient: 'first@example.com', kind: 'account_deleted', user_id: null }
  ])
  t.same(await query(env.DATABASE_URL, 'SELECT storage_key FROM assets'), [{ storage_key: stuck }])
  t.match(await users(t, env, ['delete', 'first@example.com']), { code: 1, stderr: /^There is no account / })
  t.match(await users(t, env, ['create', 'first@example.com'], PASSWORD), { code: 0 })
})
