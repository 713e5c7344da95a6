import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner, type Response } from '../../helpers/client.ts'
import { createProxy, startRedisServer } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Receipts of writes on three replicas, each with a proxy before Redis, while connections fail. Every page is
// in the memory of every replica, so that a replica that doesn't know of a write would serve the old version.

const PAGES = 20

const redis = await startRedisServer(t)
const settings: Record<string, string> = { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000000' }
const replicas = await Promise.all([0, 1, 2].map(async () => {
  const proxy = await createProxy(t, redis.url)
  return { proxy, ...await startService(t, { ...settings, REDIS_URL: proxy.url }) }
}))
const [one, two, three] = replicas as [typeof replicas[0], typeof replicas[0], typeof replicas[0]]
const owner = await Owner.signUp(one.url)

const write = async (url: string, id: string, version: number, wait = 10): Promise<Response> =>
  await owner.call('PUT', `${url}/manage/landing_pages/${id}/document`, {
    text: `{"version":${version}}`,
    headers: { prefer: `wait=${wait}` }
  })
const hasReceipt = ({ headers }: Response): boolean =>
  headers.get('preference-applied') === 'wait' && headers.get('landfall-publication') === 'replicas'

async function readVersion (url: string, publicId: string): Promise<number> {
  const response = await fetch(`${url}/landing_pages/${publicId}`)
  return ((await response.json()) as { version: number }).version
}

t.test('with a receipt every replica has the version, whatever fails', async (t) => {
  const phases: Record<string, { receipts: number, none: number }> = {}
  let phase = { receipts: 0, none: 0 }
  const state = { isWriting: true }
  const wrong: string[] = []
  const pages = await Promise.all(Array.from(
    { length: PAGES },
    async () => await owner.createPage(one.url, '{"version":1}')
  ))
  const writing = Promise.all(pages.map(async ({ id, public_id: publicId }, index) => {
    for (let version = 2; state.isWriting; version++) {
      await sleep(200) // or else the load takes all cores
      await Promise.all(replicas.map(async ({ url }) => await readVersion(url, publicId)))
      const begun = phase
      const response = await write((replicas[(version + index) % 3] as typeof one).url, id, version)
      if (response.status !== 204) throw new Error(`${response.status} ${response.text}`)
      if (!hasReceipt(response)) {
        phase.none++ // not of `begun`: a write that began before the fault may have met it
        continue
      }
      begun.receipts++
      for (const [number, { url }] of replicas.entries()) {
        const read = await readVersion(url, publicId)
        if (read !== version) wrong.push(`replica ${number} has version ${read} instead of ${version}`)
      }
    }
  }))
  const during = async (name: string, fault: () => unknown, ms: number, mend: () => unknown) => {
    phase = phases[name] = { receipts: 0, none: 0 }
    await fault()
    await sleep(ms)
    await mend()
  }
  const nothing = () => {}
  await during('calm', nothing, 2000, nothing)
  await during(
    'a replica gets no messages',
    () => two.proxy.blackhole(/subscribe/i),
    7000,
    async () => await two.proxy.restore()
  )
  await during(
    'a replica has no Redis',
    async () => await three.proxy.refuse(),
    15_000,
    async () => await three.proxy.restore()
  )
  await during(
    'Redis is killed and started',
    async () => await redis.stop(),
    2000,
    async () => {
      await redis.start()
      await until(() => phase.receipts > 0, 'writes have receipts again')
    }
  )
  state.isWriting = false
  await writing
  t.same(wrong, [])
  t.equal(phases.calm?.none, 0)
  t.equal(phases['a replica gets no messages']?.none, 0, 'the messages of others are not lost')
  t.ok((phases['a replica has no Redis']?.none ?? 0) > 0, 'a writer without Redis knows nothing')
  t.ok((phases['a replica has no Redis']?.receipts ?? 0) > 0, 'the other writers do')
})

t.test('a frozen or dead replica holds up no receipt', async (t) => {
  const { id, public_id: publicId } = await owner.createPage(one.url, '{"version":1}')
  for (const { url } of replicas) t.equal(await readVersion(url, publicId), 1)
  three.child.kill('SIGSTOP')
  t.ok(hasReceipt(await write(one.url, id, 2)))
  t.equal(await readVersion(two.url, publicId), 2)
  three.child.kill('SIGCONT')
  await until(async () => await readVersion(three.url, publicId) === 2, 'the replica has seen the message')
  await three.end('SIGKILL')
  t.ok(hasReceipt(await write(two.url, id, 3)))
  t.equal(await readVersion(one.url, publicId), 3)
})

t.test('a process that stops gives no receipt that it cannot know', async (t) => {
  const { id, public_id: publicId } = await owner.createPage(one.url, '{"version":1}')
  const writing = write(one.url, id, 2, 50)
  await until(async () => await readVersion(one.url, publicId) === 2, 'the write is done')
  const end = one.end('SIGTERM')
  const response = await writing
  t.same([response.status, hasReceipt(response)], [204, false])
  t.equal(await end, 0)
  t.equal(await readVersion(two.url, publicId), 2)
})
