import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { PASSWORD } from './app.ts'
import { call, Owner } from './client.ts'
import { secretsIn } from './secrets.ts'
import { PROJECT, startService } from './service.ts'

// Runs the command line as a process, and has the tests of `landfall users` for both databases.

export interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export const LANDFALL = join(PROJECT, 'dist/cli/landfall.js')

export interface RunOptions {
  /** Standard input. */
  readonly input?: string | Uint8Array
  readonly cwd?: string
  readonly command?: readonly [string, ...string[]]
  /** Receives the lines of the audit trail, which are left out of `stderr`. */
  readonly audit?: object[]
}

/** Runs the built command line as a process. Its environment is `env`, PATH, HOME and TMPDIR. */
export async function landfall (
  env: Record<string, string>,
  args: readonly string[],
  { input = '', cwd = PROJECT, command = [process.execPath, LANDFALL], audit = [] }: RunOptions = {}
): Promise<Outcome> {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir() } = process.env
  const [program, ...first] = command
  const child = spawn(program, [...first, ...args], {
    cwd,
    env: { PATH, HOME, TMPDIR, ...env },
    stdio: ['pipe', 'pipe', 'pipe']
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.stdin.on('error', () => {}) // the command may exit without reading its input
  child.stdin.end(input)
  await once(child, 'close')
  stderr = stderr.replace(/^\{"level":30,.*"audit":.*\n/gm, (line) => {
    audit.push(JSON.parse(line))
    return ''
  })
  return { code: child.exitCode, stdout, stderr }
}

const NEW_PASSWORD = 'brand-new staple 4711'
/** Runs a `users` command, and checks that its output contains no secret. */
export const users = async (t: Test, env: Record<string, string>, args: string[], input = '') => {
  const outcome = await landfall(env, ['users', ...args], { input })
  t.same(secretsIn(outcome.stdout + outcome.stderr, env, { NEW_PASSWORD }), [], 'no secret is printed')
  return outcome
}
const signIn = async (url: string, email: string, password: string) =>
  (await call('POST', `${url}/auth/sign_in`, { json: { user: { email, password } } })).status

/** Tests all `users` commands while the service runs. */
export async function administer (t: Test, env: Record<string, string>): Promise<void> {
  const service = await startService(t, env)
  const { url } = service
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
  t.equal((await owner.call('GET', `${url}/auth/me`)).status, 200)
  // Failed sign-ins don't count any more.
  for (let n = 0; n < 10; n++) t.equal(await signIn(url, owner.email, 'wrong password'), 401)
  t.equal(await signIn(url, owner.email, PASSWORD), 429)
  t.match(await users(t, env, ['set-password', owner.email.toUpperCase(), '--json'], `${NEW_PASSWORD}\r\n`), {
    code: 0,
    stdout: `{"id":${accounts[0].id},"email":"${owner.email}","sessions_ended":1}\n`,
    stderr: ''
  })
  t.equal((await owner.call('GET', `${url}/auth/me`)).status, 401)
  t.equal(
    (await call('POST', `${url}/auth/refresh`, { json: { refresh_token: owner.refreshToken } })).status,
    401
  )
  t.equal(await signIn(url, owner.email, PASSWORD), 401)
  t.equal(await signIn(url, owner.email, NEW_PASSWORD), 200)

  const stays = await Owner.signUp(url)
  t.match(await users(t, env, ['sign-out', owner.email]), {
    code: 0,
    stdout: `Signed out ${owner.email}: 1 session ended\n`
  })
  t.equal((await stays.call('GET', `${url}/auth/me`)).status, 200, 'other accounts stay signed in')
  t.equal(await signIn(url, owner.email, NEW_PASSWORD), 200, 'the account can still sign in')
  t.match(await users(t, env, ['set-password', 'nobody@example.com'], NEW_PASSWORD), {
    code: 1,
    stdout: '',
    stderr: /^There is no account nobody@example\.com \(npm run landfall -- users list/
  })
  t.match(await landfall(env, ['migrate']), { code: 0, stdout: 'The database is up to date\n' })
  t.equal((await call('GET', `${url}/health/ready`)).status, 200)
  await takeDown(t, env, url)
  t.equal(await service.end('SIGTERM'), 0)
  t.equal(
    JSON.parse((await users(t, env, ['list', '--json'])).stdout).length,
    3,
    'the commands also work without a running service'
  )
}

/** Tests the commands that delete, while the service has everything in its cache. */
async function takeDown (t: Test, env: Record<string, string>, url: string): Promise<void> {
  const owner = await Owner.signUp(url)
  const [first, second] = [await owner.createPage(url, '{"n":1}'), await owner.createPage(url, '{"n":2}')]
  const upload = async () => JSON.parse((await owner.upload(url, Buffer.from('abc'))).text)
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
    stderr: `There is no page ${first.public_id}\n`
  })

  t.match(await landfall(env, ['assets', 'take-down', byId.id]), {
    code: 0,
    stdout: `Deleted asset ${byId.id}, `,
    stderr: ''
  })
  t.match(await landfall(env, ['assets', 'take-down', byUrl.url.split('/').at(-1)]), { code: 0, stderr: '' })
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
  t.equal((await owner.call('GET', `${url}/auth/me`)).status, 401)
  t.match(await users(t, env, ['delete', owner.email]), { code: 1, stderr: /^There is no account / })
  t.match(await landfall(env, ['verify']), { code: 0 }, 'no file is left')
}
