import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import t from 'tap'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { call, Owner, type Response } from '../../helpers/client.ts'
import type { CreatedPage } from '../../helpers/app.ts'
import { statuses } from '../../helpers/readers.ts'
import { END, file, FORM, noise, partHead, uploadHead } from '../../helpers/assets.ts'
import { connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'
import { startReplicas, stopAtEveryStep } from './fault-replicas.ts'

// SIGKILL in a refresh, a replay, a write, between commit and publication, and during an upload elsewhere.

const HOUR_MS = 60 * 60 * 1000

const { survivor, victim, owner, load, database, folder, settings, look } = await startReplicas(t)

// Leftovers for the last test. Every start before it sweeps, but they are too young then.
for (const path of [join(folder, newStorageKey('')), join(folder, '.tmp', randomPublicId())]) {
  await writeFile(path, 'x')
}
const leftAt = performance.now()

const refresh = async (token: string, { url } = victim) =>
  await call('POST', `${url}/auth/refresh`, { json: { refresh_token: token } })
const lives = async (someone: Owner) => await someone.accessStatus(victim.url) === 200
const nextToken = (response: Response) => response.json<{ refresh_token: string }>().refresh_token

t.test('after SIGKILL in a refresh, exactly one token works', async (t) => {
  const people: Owner[] = []
  const refreshSomebodys = async () => {
    const someone = await Owner.signUp(survivor.url)
    people.push(someone)
    t.equal((await refresh(someone.refreshToken)).status, 200, 'the last refresh succeeds')
  }
  const stops = await stopAtEveryStep(victim, /^query/, refreshSomebodys)
  t.ok(stops.length >= 2, 'the process stopped at every step')
  people.splice(stops.length - 1, 1) // the one that succeeded
  const underWay = await victim.stopAt(
    { steps: /^query/, nth: stops.length - 1, when: 'during' },
    refreshSomebodys
  )
  if (underWay !== undefined) stops.push(underWay)
  await victim.kill()
  await victim.restart()

  const worked = []
  for (const [index, { when, secrets }] of stops.entries()) {
    const someone = people[index] as Owner
    const { rows: unspent } = await database.query(
      `SELECT FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id JOIN users u ON u.id = s.user_id
        WHERE u.email = $1 AND t.rotated_at IS NULL`,
      [someone.email]
    )
    t.equal(unspent.length, 1, `${when}: the session has one token that was not exchanged`)
    // A slow restart must not turn the refresh into a replay, which the next test covers.
    await database.query('UPDATE refresh_tokens SET rotated_at = now() WHERE rotated_at IS NOT NULL')
    const old = await refresh(someone.refreshToken)
    const lost = await refresh(secrets.at(-1) as string)
    const winner = old.status === 200 ? 'old' : 'new'
    worked.push(`${when}: ${winner}`)
    t.same([old.status, lost.status].sort(), [200, 401], `${when}: only the ${winner} token works`)
    t.ok(await lives(someone), 'a client that got no response may repeat the refresh')
    const next = nextToken(winner === 'old' ? old : lost)
    t.equal((await refresh(next, survivor)).status, 200, 'the token that it gets works')
    t.equal(await someone.signInStatus(victim.url), 200, 'every account can sign in again')
  }
  t.equal(worked[0], 'before: old')
  t.equal(worked.at(-2), 'after: new')
  t.match(worked.at(-1), /^during: /)
})

t.test(
  'after SIGKILL in a replay, a spent token never works',
  async (t) => {
    const people: { spent: string, newest: string, someone: Owner }[] = []
    const replay = async () => {
      const someone = await Owner.signUp(survivor.url)
      people.push({
        someone,
        spent: someone.refreshToken,
        newest: nextToken(await refresh(someone.refreshToken, survivor))
      })
      const hash = createHash('sha256').update(someone.refreshToken).digest()
      await database.query(
        "UPDATE refresh_tokens SET rotated_at = rotated_at - interval '11 seconds' WHERE token_hash = $1",
        [hash]
      )
      t.equal((await refresh(someone.refreshToken)).status, 401)
    }
    const stops = await stopAtEveryStep(victim, /^query/, replay)
    await victim.kill()
    await victim.restart()
    const answered = people.splice(stops.length - 1, 1)[0]
    t.notOk(await lives(answered!.someone), 'the answered replay has ended its session')
    const alive = await Promise.all(people.map(async ({ someone }) => await lives(someone)))
    t.same(
      alive,
      [...stops.slice(1).map(() => true), false],
      'a committed replay ends the session even if its response was lost'
    )
    for (const { spent, newest, someone } of people) {
      t.equal((await refresh(spent)).status, 401)
      t.equal((await refresh(newest, survivor)).status, 401)
      t.notOk(await lives(someone))
    }
  }
)

/** The steps of a write. */
const STEPS = /^query|^redis/
const DOCUMENTS = ['{"v":1}', '{"v": 2e400}', '{"v":3 }']

interface Revision {
  readonly version: number
  readonly etag: string
  readonly byte_size: number
}

const urlOf = (id: string, path: string, { url } = survivor) => `${url}/manage/landing_pages/${id}${path}`
const tagOf = (text: string) => `"${createHash('sha256').update(text).digest('base64url')}"`

/** Creates a page with three versions. */
async function createHistory (): Promise<{ id: string, publicId: string }> {
  const { id, public_id: publicId } = await owner.createPage(survivor.url, DOCUMENTS[0] as string)
  for (const text of DOCUMENTS.slice(1)) await owner.call('PUT', urlOf(id, '/document'), { text })
  return { id, publicId }
}

interface Write {
  /** The document that it writes. */
  readonly result: string
  readonly status: number
  /** Returns the status of the response. */
  readonly run: (id: string) => Promise<number>
}

const WRITES: Record<string, Write> = {
  'a write': {
    result: '{"v":4}',
    status: 204,
    run: async (id) => (await owner.call('PUT', urlOf(id, '/document', victim), { text: '{"v":4}' })).status
  },
  'a restore': {
    result: DOCUMENTS[0] as string,
    status: 200,
    run: async (id) => (await owner.call('POST', urlOf(id, '/revisions/1/restore', victim))).status
  }
}

for (const [name, { result, status, run }] of Object.entries(WRITES)) {
  t.test(`SIGKILL at any step of ${name} leaves each version its document`, async (t) => {
    const pages: { id: string, publicId: string }[] = []
    const action = async () => {
      const page = await createHistory()
      pages.push(page)
      t.equal(await run(page.id), status)
    }
    const stops = await stopAtEveryStep(victim, STEPS, action)
    t.ok(stops.length >= 2, 'the process stopped at every step')
    const underWay = await victim.stopAt({ steps: STEPS, nth: 2, when: 'during' }, action)
    t.ok(underWay, 'once more while the statement was under way')
    await victim.kill()
    await victim.restart()

    const lengths = new Set<number>()
    for (const { id, publicId } of pages) {
      const list = (await owner.call('GET', urlOf(id, '/revisions'))).json<Revision[]>()
      lengths.add(list.length)
      t.same(list.map(({ version }) => version), [4, 3, 2, 1].slice(-list.length), 'no gap')
      for (const { version, etag, byte_size: size } of list) {
        const { text } = await owner.call('GET', urlOf(id, `/revisions/${version}`))
        t.equal(text, [...DOCUMENTS, result][version - 1])
        t.equal(etag, tagOf(text))
        t.equal(size, Buffer.byteLength(text))
      }
      const current = [...DOCUMENTS, result][list.length - 1]
      t.equal((await owner.call('GET', urlOf(id, '/document'))).text, current)
      const read = await call('GET', `${victim.url}/landing_pages/${publicId}`)
      // Without its publication, a copy in Redis is served until it expires after a minute.
      const newest = current === result ? [DOCUMENTS[2], result] : [DOCUMENTS[2]]
      t.ok(newest.includes(read.text), `readers get a version of the history: ${read.text}`)
      t.equal(await run(id), status, 'the write can be repeated')
    }
    t.same([...lengths].sort(), [3, 4], 'some writes were lost, others were committed')
  })
}

t.test('after SIGKILL before publication, caches are stale for a minute at most', async (t) => {
  const redis = new Redis(settings.REDIS_URL)
  t.teardown(() => redis.disconnect())
  const replicas = [survivor, victim]
  const get = async (url: string, publicId: string) => {
    const { status, text } = await call('GET', `${url}/landing_pages/${publicId}`)
    return status === 200 ? text : status
  }
  const getAll = async () =>
    await Promise.all(cases.flatMap(({ page }) =>
      replicas.map(async ({ url }) => await get(url, page.public_id))
    ))

  const old = '{"v":1}'
  const create = async () => {
    const page = await owner.createPage(victim.url, old)
    t.same(await Promise.all(replicas.map(async ({ url }) => await get(url, page.public_id))), [old, old])
    return page
  }
  const patch = { page: await create(), truth: '{"v":2}' }
  const remove = { page: await create(), truth: 404 }
  const cases = [patch, remove]
  const committed = { steps: /^query WITH (replaced|locked)/, nth: 1, when: 'after' } as const
  t.ok(await victim.stopAt(committed, async () => await owner.update(victim.url, patch.page.id, patch.truth)))
  t.ok(await victim.stopAt(
    committed,
    async () => await owner.call('DELETE', `${victim.url}/manage/landing_pages/${remove.page.id}`)
  ))
  // The publication of this page succeeds, but its writer gets no response.
  const published = await create()
  t.ok(await victim.stopAt(
    { steps: /^redis evalsha/, nth: 1, when: 'after' },
    async () => await owner.update(victim.url, published.id, '{"v":2}')
  ))
  await victim.kill()
  t.same(
    (await database.query(
      'SELECT current_data FROM landing_pages WHERE id IN ($1, $2) AND deleted_at IS NULL',
      cases.map(({ page }) => page.id)
    )).rows,
    [{ current_data: patch.truth }],
    'both writes are committed'
  )
  const keyOf = (page: CreatedPage) => `landfall:document:${page.public_id}`
  for (const { page } of cases) t.equal(await redis.hget(keyOf(page), 'd'), old, 'it is still in Redis')
  await victim.restart()
  for (const { url } of replicas) {
    t.equal(await get(url, published.public_id), '{"v":2}', 'although its writer got no response')
  }

  /** Advances all clocks by half of the 60 s that a cached copy lives. */
  const pass30Seconds = async () => {
    for (const replica of replicas) replica.advance(30_000)
    for (const { page } of cases) await redis.pexpire(keyOf(page), await redis.pttl(keyOf(page)) - 30_000)
  }
  await pass30Seconds()
  const halfway = await getAll()
  t.ok(
    cases.every(({ truth }, index) =>
      halfway.slice(2 * index, 2 * index + 2).every((response) => [old, truth].includes(response))
    ),
    'each response is the old or the new version'
  )
  await pass30Seconds()
  const truths = cases.flatMap(({ truth }) => replicas.map(() => truth))
  t.same(await getAll(), truths, 'every replica serves the new version')
  t.same(await getAll(), truths, 'nor later')
  t.equal((await owner.update(victim.url, patch.page.id, '{"v":3}')).status, 200)
  await until(
    async () => await get(survivor.url, patch.page.public_id) === '{"v":3}',
    'the other replica gets the next write'
  )
})

t.test(
  'the cleanup at start keeps uploads of another replica',
  async (t) => {
    // The first upload is sending its file slowly, and the file of the second one waits for its row.
    const content = noise(100_000)
    const [head, tail] = [partHead(file('')), Buffer.from(`\r\n${END}`)]
    const raw = connection(t, survivor.url)
    raw.send(uploadHead({ headers: { authorization: `Bearer ${owner.accessToken}` } }, {
      'content-type': FORM,
      'content-length': `${head.length + content.length + tail.length}`
    }))
    raw.send(head)
    let sent = 0
    const timer = setInterval(() => {
      raw.send(content.subarray(sent, sent += 100))
    }, 100)
    t.teardown(() => clearInterval(timer))
    await until(async () => (await look()).temporary.length === 2, 'the first upload is under way')
    await until(() => performance.now() - leftAt > 12_000, 'the leftovers of the beginning are old enough')
    t.ok(
      await survivor.stopAt(
        { steps: /^query INSERT/, nth: 1, when: 'before' },
        async () => await owner.upload(survivor.url, noise(5000))
      ),
      'the file of the second upload waits for its row'
    )
    const before = await look()
    t.equal(before.orphans.length, 2)

    // The clock of the new process makes the leftovers older than an hour, and the files of the uploads
    // younger.
    await victim.kill()
    victim.advance(Math.round(HOUR_MS - (performance.now() - leftAt - 500) - 60_000))
    await victim.restart()
    await until(async () => {
      const { orphans, temporary } = await look()
      return orphans.length < 2 && temporary.length < 2
    }, 'the start has removed the leftovers')
    const after = await look()
    t.same([after.orphans.length, after.temporary.length], [1, 1], 'only the leftovers are gone')
    t.ok(sent < content.length, 'the first upload is still under way')
    clearInterval(timer)
    raw.send(content.subarray(sent))
    raw.send(tail)
    t.equal((await raw.response()).status, 201, 'the first upload succeeds')
    t.same((await look()).broken, [])
  }
)

t.test('the other replica has answered every read', async (t) => {
  t.same(Object.keys(statuses(await load())), ['200'])
})
