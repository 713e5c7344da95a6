import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { RECEIVABLE, startReceiver, type ReceivedMessage } from '../../helpers/receiver.ts'
import { claimRedis, listen, query } from '../../helpers/servers.ts'
import { SERVE, startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

const PAGES = 16
/** Messages of a page that is written all the time. */
const RESTLESS_MESSAGES = 3

async function createWebhook (owner: Owner, service: string, url: string): Promise<string> {
  const { status, text } = await owner.call('POST', `${service}/webhooks`, { json: { url } })
  if (status !== 201) throw new Error(text)
  return JSON.parse(text).id
}

/** Reads the number in a document, which is its version. */
async function readVersion (url: string, publicId: string): Promise<number> {
  const response = await fetch(`${url}/landing_pages/${publicId}`)
  return ((await response.json()) as { version: number }).version
}

/**
 * A consumer that reads a page from every replica at each message never gets an older version, while pages
 * are written as fast as possible, one every 200 ms, and eleven other receivers never respond.
 *
 * @param minWrites how many writes there are at least
 */
export async function testConsumers (t: Test, minWrites: number): Promise<void> {
  const settings: Record<string, string> = {
    ...await testSettings(t),
    ...RECEIVABLE,
    REDIS_URL: await claimRedis(t),
    RATE_LIMIT_PUBLIC: '1000000'
  }
  const start = async (env: Record<string, string>) => await startService(t, env, SERVE, true)
  const replicas = [await start(settings), await start({ ...settings, MIGRATE_ON_START: 'false' })]
  const urlOf = (index: number): string => replicas[index % replicas.length]?.url as string
  const owner = await Owner.signUp(urlOf(0))

  const stale: string[] = []
  const reads: Promise<void>[] = []
  const check = async ({ data: { page, version } }: ReceivedMessage, url: string): Promise<void> => {
    const read = await readVersion(url, page.public_id)
    if (read < version) stale.push(`${page.id}: ${read} instead of ${version}`)
  }
  const receiver = await startReceiver(t, (message) => {
    reads.push(...replicas.map(async ({ url }) => await check(message, url)))
    return 204
  })
  const messagesOf = (id: string) => receiver.messages.filter(({ data }) => data.page.id === id)
  const silent = `http://127.0.0.1:${await listen(t, createServer(() => {}))}/` // never responds
  const live = await createWebhook(owner, urlOf(0), receiver.url)
  const dead = await createWebhook(owner, urlOf(0), silent)
  const other = await Owner.signUp(urlOf(0))
  for (let n = 0; n < 10; n++) await createWebhook(other, urlOf(0), silent)
  for (let n = 0; n < 20; n++) await other.createPage(urlOf(0), '{}')
  const pages = await Promise
    .all(Array.from({ length: PAGES }, async () => await owner.createPage(urlOf(0), '{"version":1}')))
  const restless = pages[0] as typeof pages[0]

  let writes = 0
  const versions = new Map<string, number>()
  await Promise.all(pages.map(async ({ id }) => {
    const isDone = () =>
      writes >= minWrites && (id !== restless.id || messagesOf(id).length >= RESTLESS_MESSAGES)
    let version = 1
    for (; !isDone(); writes++) {
      version++
      const { status } = await owner.update(urlOf(version), id, `{"version":${version}}`)
      if (status !== 200) throw new Error(`write: ${status}`)
      if (id === restless.id) await sleep(200)
    }
    versions.set(id, version)
  }))
  t.ok(receiver.messages.length < writes / 5, `${receiver.messages.length} messages for ${writes} writes`)

  await until(
    () => pages.every(({ id }) => messagesOf(id).some(({ data }) => data.version === versions.get(id))),
    'the last version of each page'
  )
  await Promise.all(reads)
  t.same(stale, [], 'no replica answered with an older version')
  for (const { id } of pages) {
    const got = messagesOf(id).map(({ data }) => data.version)
    t.same(got, got.toSorted((a, b) => a - b), 'in order')
    t.equal(new Set(got).size, got.length, 'each once')
  }
  const merged = receiver.messages.reduce((sum, { data }) => sum + data.merged + 1, 0)
  t.equal(merged, writes + PAGES, 'the messages stand for all changes')

  const database = settings.DATABASE_URL as string
  const rows = await query(database, `SELECT count(*)::integer AS count FROM outbox WHERE target = '${dead}'`)
  t.ok(Number(rows[0]?.count) <= 2 * PAGES, `${rows[0]?.count} rows for a receiver that is away`)
  const late = await query(
    database,
    `SELECT max(extract(epoch FROM last_attempt_at - created_at))::integer AS seconds
    FROM outbox WHERE target = '${live}' AND state = 'delivered'`
  )
  t.ok(
    Number(late[0]?.seconds) <= 30,
    `at most ${late[0]?.seconds} s, although eleven receivers never respond`
  )
}
