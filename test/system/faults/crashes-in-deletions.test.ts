import { Redis } from 'ioredis'
import t from 'tap'
import { resumeDeletions } from '../../../src/modules/account-deletion/index.ts'
import { buildTestApp, PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { until } from '../../helpers/until.ts'
import { startReplicas, stopAtEveryStep } from './fault-replicas.ts'

// SIGKILL at every step of the deletion of an account: it happens in the end, or it hasn't begun.

// Short, because PostgreSQL ends a transaction that stands still after this time.
const ofVictim = { DATABASE_TIMEOUT_MS: '10000' }
const { survivor, victim, database, load, look, settings } = await startReplicas(t, ofVictim)
/** More than one batch. */
const PAGES = 12
/** The steps of the deletion, without those that check the session and the password. */
const STEPS = new RegExp([
  '^query (COMMIT|WITH locked |DELETE FROM "public"."(assets|refresh_tokens|users)|',
  'SELECT "public"."(assets|landing_pages)")|^unlink'
].join(''))

interface Doomed {
  readonly owner: Owner
  /** The URLs of its pages and of its files. */
  readonly pages: readonly string[]
  readonly files: readonly string[]
}

/** Creates an account with pages and files. */
async function create (): Promise<Doomed> {
  const owner = await Owner.signUp(survivor.url)
  const pages = []
  for (let n = 0; n < PAGES; n++) pages.push(await owner.createPage(survivor.url, `{"n":${n}}`))
  const files = []
  for (const text of ['a', 'b']) files.push(await owner.store(survivor.url, Buffer.from(text)))
  return {
    owner,
    pages: pages.map(({ public_id: publicId }) => `${survivor.url}/landing_pages/${publicId}`),
    files: files.map(({ path }) => survivor.url + path)
  }
}

const signUp = async ({ owner: { email } }: Doomed) => {
  const user = { email, password: PASSWORD, password_confirmation: PASSWORD }
  return (await call('POST', `${survivor.url}/auth/sign_up`, { json: { user } })).status
}

t.test('SIGKILL at any step leaves nothing of a deleted account', async (t) => {
  const doomed: Doomed[] = []
  const stops = await stopAtEveryStep(victim, STEPS, async () => {
    const one = await create()
    doomed.push(one)
    const { status } = await one.owner.call('DELETE', `${victim.url}/auth/me`, {
      json: { password: PASSWORD }
    })
    t.equal(status, 204)
  })
  // Begun, a list for the caches, two lists and batches of pages, list of files, two files, their rows,
  // the tokens, the user, and the end.
  t.equal(stops.length, 13, 'the process stopped at every step')

  // The process hangs, and the accounts whose deletion has begun can't be used any more.
  const [untouched, ...begun] = doomed as [Doomed, ...Doomed[]]
  t.equal(await untouched.owner.signInStatus(survivor.url), 200, 'its transaction ends without an effect')
  for (const [index, one] of begun.entries()) {
    t.equal(await one.owner.accessStatus(survivor.url), 401, `its session, ${index}`)
    if (index % 2 === 0) t.equal(await signUp(one), 201, 'the address is free at once')
    else t.equal(await one.owner.signInStatus(survivor.url), 401)
  }
  await victim.kill()
  await victim.restart()
  await load()

  const replica = await buildTestApp(t, settings)
  // The claims of the killed process lapse.
  await until(async () => {
    await resumeDeletions(replica)
    return (await database.query('SELECT FROM account_deletions')).rows.length === 0
  }, 'no deletion is unfinished')
  const { broken, orphans, temporary, rows: assets } = await look()
  t.same({ broken, orphans, temporary }, { broken: [], orphans: [], temporary: [] })
  t.equal(assets.length, untouched.files.length)

  // Without its publication, a page may be served from caches for a minute.
  const redis = new Redis(settings.REDIS_URL)
  await redis.flushdb()
  redis.disconnect()
  survivor.advance(61_000)
  const statusesOf = async ({ pages, files }: Doomed) =>
    new Set(await Promise.all([...pages, ...files].map(async (url) => (await call('GET', url)).status)))
  for (const one of begun) t.same(await statusesOf(one), new Set([404]))
  t.same(await statusesOf(untouched), new Set([200]))
})
