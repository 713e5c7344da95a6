import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { ask, call, type Owner } from './client.ts'
import { outcomes, Readers, statuses } from './readers.ts'
import { meanwhile } from './redis-replicas.ts'
import { until } from './until.ts'

// What two replicas do behind every load balancer of deploy/.

/** Of a reader that doesn't reach the limit. */
export const ORIGIN = { origin: 'https://reader.test' }

/** Two replicas behind a load balancer. */
export interface Site {
  readonly url: string
  readonly owner: Owner
  /** Returns what the load balancer has said about errors. */
  errors(): string
}

/** Settings of the replicas behind a load balancer on this machine. */
export const BEHIND_PROXY = {
  TRUST_PROXY: '127.0.0.1',
  ALLOWED_HOSTS: 'reader.test',
  RATE_LIMIT_ALLOWED_HOSTS: '1000000',
  // A busy machine needs longer to notice a shutdown, to finish the requests, and for a write.
  SHUTDOWN_DELAY_MS: '3000',
  SHUTDOWN_TIMEOUT_MS: '60000',
  DATABASE_TIMEOUT_MS: '60000'
}

/** Checks that one limit counts, whatever address a client claims. Returns the path that was read. */
export async function checkSharedLimit (t: Test, { url, owner }: Site): Promise<string> {
  let clients = 1
  const newClient = (): string => `127.0.0.${++clients}`
  const claim = (n: number): Record<string, string> => ({
    'x-forwarded-for': `10.0.0.${n}`,
    'x-real-ip': `10.0.1.${n}`,
    forwarded: `for=10.0.2.${n}`
  })
  // On a busy machine, Redis may be too slow, so that each replica counts by itself for a moment.
  const path = await until(async () => {
    const { public_id: publicId } = await owner.createPage(url, '{"v":1}')
    const path = `/landing_pages/${publicId}`
    const from = newClient()
    const responses = await Promise.all(Array.from(
      { length: 60 },
      async (_, n) => await ask(url, `${path}?secret`, { headers: claim(n), from })
    ))
    return isDeepStrictEqual(statuses(responses), { 200: 30, 429: 30 }) && path
  }, 'a client gets its limit from both replicas together')
  t.equal((await ask(url, path, { from: newClient() })).status, 200, 'another client has its own limit')
  return path
}

let clients = 0

/** Waits until two replicas without a proxy count one limit. Returns a client that has spent it. */
export async function untilLimitIsShared (urls: readonly [string, string], path: string): Promise<string> {
  // Each client is a new one, because a replica may count by itself for a moment.
  return await until(async () => {
    const address = `192.0.2.${++clients}`
    let allowed = 0
    for (let n = 0; n < 40; n++) {
      const { status } = await call('GET', urls[n % 2] + path, { headers: { 'x-forwarded-for': address } })
      if (status === 200) allowed++
    }
    return allowed === 30 && address
  }, 'the replicas share a limit')
}

/** Checks that reads of a page succeed while something happens. */
export async function checkReads (t: Test, site: Site, action: () => Promise<unknown>): Promise<void> {
  const { url, owner, errors } = site
  const { public_id: publicId } = await owner.createPage(url, '{"v":1}')
  const readers = new Readers(t, { urls: [url], publicIds: [publicId], headers: ORIGIN, resend: false })
  const reads = await readers.during(action)
  await readers.stop()
  t.same(statuses(reads), { 200: reads.length }, errors().slice(-2000))
}

/**
 * Checks that neither reads nor writes fail while the replicas restart one after the other.
 *
 * @param restart stops and starts a replica in order; resolves when the load balancer uses it again
 */
export async function checkRollingRestart (
  t: Test,
  site: Site,
  restart: (index: number) => Promise<void>
): Promise<void> {
  const { url, owner } = site
  const page = await owner.createPage(url, '{"n":0}')
  const restartAll = async () => {
    for (const index of [0, 1]) await restart(index)
  }
  let n = 0
  const writes: Array<number | string> = []
  await checkReads(t, site, async () =>
    await meanwhile(restartAll, async () => {
      const sent = [
        owner.update(url, page.id, `{"n":${++n}}`),
        owner.call('POST', `${url}/landing_pages`, { json: { current_data: [] } }),
        owner.upload(url, randomBytes(3000))
      ]
      writes.push(...await outcomes(sent))
    }, 10))
  t.same([...new Set(writes)].sort(), [200, 201], `${writes.length} writes`)
  const { body } = await ask(url, `/landing_pages/${page.public_id}`, { headers: ORIGIN })
  t.equal(body.toString(), `{"n":${n}}`, 'no write was repeated or reordered')
}
