import { execFileSync } from 'node:child_process'
import { appendFileSync, chownSync, copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { keyOf, runBlock } from '../../helpers/backup.ts'
import { call, Owner } from '../../helpers/client.ts'
import { ownGuardian } from '../../shared/guardian.ts'
import { accountOf, copyCluster, privateFolder, startPostgres } from '../../shared/instances.ts'
import { provide } from '../../shared/programs.ts'
import { claimRedis, fromRunner, own, query, type PrivateServer } from '../../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

const bin = provide('postgres')
process.env.PATH = `${bin}${delimiter}${process.env.PATH}`

const REPLICA = { wal_level: 'replica', max_wal_senders: 2 }

/** Archives each WAL file when it is full. */
class ArchivingServer {
  readonly #folder = ownGuardian().folder
  readonly #account = accountOf('postgres')
  readonly #archive = privateFolder(this.#folder, 'wal-', this.#account)
  #cluster = ''
  #base = ''
  server!: PrivateServer

  /** Starts it and takes a base backup. */
  async start (t: Test): Promise<void> {
    this.#cluster = await copyCluster(fromRunner('TEST_POSTGRES_CLUSTER'), this.#folder)
    this.server = own(
      t,
      await startPostgres(bin, this.#cluster, ownGuardian(), 'off', {
        ...REPLICA,
        archive_mode: 'on',
        archive_command: `cp %p ${this.#archive}/%f`
      })
    )
    this.#base = privateFolder(this.#folder, 'postgres-', this.#account)
    const data = join(this.#base, 'data')
    execFileSync('pg_basebackup', ['-D', data, '-d', this.server.url, '-X', 'none', '-c', 'fast'], {
      ...this.#account,
      stdio: 'pipe'
    })
  }

  /** Recovers the database to a moment, on another server. */
  async recoverTo (t: Test, moment: string): Promise<PrivateServer> {
    const [{ name } = {}] = await query(this.server.url, 'SELECT pg_walfile_name(pg_switch_wal()) AS name')
    await until(() => existsSync(join(this.#archive, name as string)), 'the WAL is archived')
    const data = join(this.#base, 'data')
    const signal = join(data, 'recovery.signal')
    writeFileSync(signal, '')
    if (this.#account.uid !== undefined) chownSync(signal, this.#account.uid, this.#account.gid as number)
    appendFileSync(
      join(data, 'postgresql.auto.conf'),
      `restore_command = 'cp ${this.#archive}/%f "%p"'
      recovery_target_time = '${moment}'
      recovery_target_action = 'promote'\n`
    )
    copyFileSync(join(this.#cluster, 'password'), join(this.#base, 'password'))
    const server = own(t, await startPostgres(bin, this.#base, ownGuardian(), 'off', REPLICA))
    await until(async () => {
      const [row] = await query(server.url, 'SELECT pg_is_in_recovery()::text AS recovers')
      return row?.recovers === 'false'
    }, 'the recovery has ended')
    return server
  }
}

provide('jq')

/** The commands of the section. The last two blocks read the log. */
const COMMANDS = [...(readFileSync(join(PROJECT, 'docs/backup.md'), 'utf8')
  .split('\n## Point-in-time recovery\n')[1] as string).matchAll(/^( *)```sh\n([\s\S]*?)^\1```$/gm)]
  .map(([, indent = '', block = '']) => block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))

/** Runs commands, and returns their output. */
async function paste (block: string, env: Record<string, string>): Promise<string> {
  const { code, output } = await runBlock(block, env)
  if (code !== 0) throw new Error(`${block}\n${output}`)
  return output
}

t.test('a service works on a database that is older than its uploads and its Redis', async (t) => {
  const archiving = new ArchivingServer()
  await archiving.start(t)
  const folder = temporaryFolder(t)
  const settings = {
    DATABASE_URL: archiving.server.url,
    REDIS_URL: await claimRedis(t),
    UPLOADS_DIR: join(folder, 'uploads'),
    JWT_SECRET: 'x'.repeat(32)
  }
  const before = await startService(t, settings)
  const { url } = before
  const owner = await Owner.signUp(url)
  const upload = async (by: Owner, text: string) => await by.store(url, Buffer.from(text))
  const page = await owner.createPage(url, '{"n":1}')
  const [kept, dropped] = [await upload(owner, 'kept'), await upload(owner, 'dropped')]
  const key = await owner.createKey(url, ['pages:read'])
  await query(
    settings.DATABASE_URL,
    "INSERT INTO mails (user_id, recipient, kind) SELECT id, email, 'password_changed' FROM users"
  )
  const withdrawn = await owner.createPage(url, '{}')
  const [{ moment } = {}] = await query(settings.DATABASE_URL, 'SELECT clock_timestamp()::text AS moment')

  await owner.update(url, page.id, '{"n":2}')
  await owner.call('DELETE', `${url}/manage/landing_pages/${withdrawn.id}`)
  t.equal((await call('GET', `${url}/landing_pages/${page.public_id}`)).text, '{"n":2}')
  const newer = await upload(owner, 'newer')
  await owner.call('DELETE', `${url}/assets/${dropped.id}`)
  const lost = await upload(await Owner.signUp(url), 'of an account that is lost')
  await query(settings.DATABASE_URL, 'DELETE FROM mails')
  const changed = await call('PUT', `${url}/auth/password`, {
    headers: { authorization: `Bearer ${owner.accessToken}` },
    json: {
      current_password: PASSWORD,
      password: `new ${PASSWORD}`,
      password_confirmation: `new ${PASSWORD}`
    }
  })
  t.equal(changed.status, 204)
  await before.end('SIGTERM')

  const recovered = await archiving.recoverTo(t, moment as string)
  const env = { ...settings, DATABASE_URL: recovered.url }
  const count = async (table: string) =>
    Number((await query(env.DATABASE_URL, `SELECT count(*) FROM ${table}`))[0]?.count)
  t.same(
    await Promise.all(['users', 'api_keys', 'mails', 'sessions'].map(count)),
    [1, 1, 1, 1],
    'they are valid again'
  )
  t.equal(COMMANDS.length, 7)
  const KEPT = join(folder, 'kept')
  // redis-cli doesn't understand a URL with a password and without a user.
  const REDIS_URL = settings.REDIS_URL.replace('//:', '//default:')
  for (const block of COMMANDS.slice(0, -2)) {
    await paste(block, { ...env, REDIS_URL, OLD_DATABASE_URL: settings.DATABASE_URL, KEPT })
  }
  t.match(
    readFileSync(join(KEPT, 'verified'), 'utf8'),
    /1 file of uploads in progress/,
    'of the lost account'
  )
  const log = join(folder, 'landfall.log')
  writeFileSync(log, before.output())
  const [audit, access] = await Promise.all(COMMANDS.slice(-2).map(async (block) =>
    (await paste(
      block.replace('2026-11-24 14:00 UTC', moment as string).replace('landfall.log', log),
      {}
    )).trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>)
  )) as [Record<string, unknown>[], Record<string, unknown>[]]
  t.ok(audit.some(({ audit }) => audit === 'password_changed'))
  t.match(access.filter(({ method }) => method === 'DELETE'), [{
    path: `/manage/landing_pages/${withdrawn.id}`
  }])
  t.same(readFileSync(join(KEPT, 'missing'), 'utf8'), `${keyOf(dropped.url)}\n`)

  const { url: newUrl, output } = await startService(t, env)
  t.equal((await call('GET', `${newUrl}/landing_pages/${page.public_id}`)).text, '{"n":1}')
  for (const token of [owner.accessToken, key]) {
    const { status } = await call('GET', `${newUrl}/manage/landing_pages`, {
      headers: { authorization: `Bearer ${token}` }
    })
    t.equal(status, 401)
  }
  t.equal(await count('mails'), 0)
  const signedIn = await call('POST', `${newUrl}/auth/sign_in`, {
    json: { user: { email: owner.email, password: PASSWORD } }
  })
  t.equal(signedIn.status, 200, 'the earlier password')
  const status = async (asset: { url: string }) =>
    (await call('GET', newUrl + new URL(asset.url).pathname)).status
  t.same(await Promise.all([kept, newer, dropped].map(status)), [200, 200, 404])
  t.notMatch(output(), /belongs to another database/, 'so the service would remove newer files')
  t.ok((await readdir(join(KEPT, 'uploads'))).includes(keyOf(lost.url)), 'the copy has it')
})
