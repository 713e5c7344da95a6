import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../infra/system/clock.ts'
import { isPurged, type QueuedPurges } from '../outbox-repository.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The version that readers get after a write; null if the request wrote nothing that they get. */
    publication: Publication | null
  }
}

/** A version that was written, and published to the caches. */
export interface Publication {
  readonly publicId: string
  readonly version: number
  /** When Redis was told of it, in milliseconds of the process clock; undefined if it may not know it. */
  readonly announcedAt: number | undefined
  readonly purges: QueuedPurges
}

/** A replica that misses a notice of Redis finds that out within 1.5 s, and serves nothing older than 2 s. */
const SETTLED_AFTER_SECONDS = 3

/** Between the first checks whether the CDN was purged, and the most when it doesn't answer. */
const PURGE_CHECK_MS = 500
const MAX_PURGE_CHECK_MS = 5_000

/** How long replicas may serve an older version after Redis was told of a newer one, in seconds. */
export const settlingSeconds = ({ redisClient }: FastifyInstance): number =>
  redisClient === undefined ? 0 : SETTLED_AFTER_SECONDS

/**
 * Yields what a version has reached, as soon as it has: `replicas` when none that is connected to Redis
 * serves an older version to a new read, then `cdn` if there is one and it was purged. Ends after the last.
 *
 * @throws {Error} when `signal` is aborted first
 */
async function* followPublication (
  app: FastifyInstance,
  { publicId, version, announcedAt, purges }: Publication,
  signal: AbortSignal
): AsyncGenerator<'replicas' | 'cdn', void, undefined> {
  if (announcedAt === undefined) await app.documents.publisher?.announce(publicId, version, signal)
  const waitMs = (announcedAt ?? clock.now()) + settlingSeconds(app) * 1000 - clock.now()
  if (waitMs > 0) await sleep(waitMs, undefined, { signal })
  yield 'replicas'
  if (!app.database.purges) return
  let checkMs = PURGE_CHECK_MS
  while (!await isPurged(app.database, purges)) {
    await sleep(checkMs, undefined, { signal })
    checkMs = Math.min(checkMs * 1.5, MAX_PURGE_CHECK_MS)
  }
  yield 'cdn'
}

/** Shorter than a minute, after which the service and most proxies close a connection without traffic. */
const MAX_WAIT_MS = 55_000
/** The slots of a process. A waiting request takes one, and one more for each 32 KiB of its response. */
const MAX_SLOTS = 1000
const MAX_SLOTS_OF_ACCOUNT = 100
const SLOT_BYTES = 32 * 1024

interface Wait {
  readonly userId: number
  readonly slots: number
  readonly end: AbortController
}

/** The preference `wait` of RFC 7240. */
const WAIT = /(?:^|,)\s*wait\s*=\s*("?)(\d{1,2})\1\s*(?:[,;]|$)/i

/** Returns the seconds of `Prefer: wait=…`, 1 to 60; undefined if there are none. */
function preferredWait (prefer: string | string[] | undefined): number | undefined {
  const seconds = Number(WAIT.exec(prefer?.toString() ?? '')?.[2])
  return seconds >= 1 && seconds <= 60 ? seconds : undefined
}

/**
 * Delays the responses of a scope to writes with `Prefer: wait`, until readers get what was written
 * everywhere. Requests wait after their handlers, so they hold nothing but a connection and the response.
 */
export function sendReceipts (app: FastifyInstance): void {
  const waits = new Set<Wait>()
  const hasRoom = ({ userId, slots }: Wait): boolean => {
    let [all, own] = [slots, slots]
    for (const wait of waits) {
      all += wait.slots
      if (wait.userId === userId) own += wait.slots
    }
    return all <= MAX_SLOTS && own <= MAX_SLOTS_OF_ACCOUNT
  }
  app.decorateRequest('publication', null)
  app.shutdownSignal.addEventListener('abort', () => {
    for (const { end } of waits) end.abort()
  })

  app.addHook('onSend', async (request, reply, payload: unknown) => {
    const { publication } = request
    if (publication === null || reply.statusCode >= 300) return payload
    const seconds = preferredWait(request.headers.prefer)
    if (seconds === undefined) return payload
    request.document = undefined // an owner may wait with many large ones
    const bytes = Buffer.isBuffer(payload) ? payload.length : 0
    const wait = {
      userId: request.caller.userId,
      slots: 1 + Math.floor(bytes / SLOT_BYTES),
      end: new AbortController()
    }
    const { signal } = wait.end
    const end = () => wait.end.abort()
    if (app.shutdownSignal.aborted || reply.raw.destroyed || !hasRoom(wait)) end()
    else waits.add(wait)
    const startedAt = performance.now()
    const timer = setTimeout(end, Math.min(seconds * 1000, MAX_WAIT_MS))
    reply.raw.once('close', end)
    try {
      const reached: string[] = []
      for await (const one of followPublication(app, publication, signal)) {
        reached.push(one)
        reply.header('landfall-publication', reached.join(', '))
      }
      reply.header('preference-applied', 'wait')
    } catch (error) {
      if (!signal.aborted) request.log.warn({ err: error }, 'a publication could not be followed')
    } finally {
      reply.raw.off('close', end)
      clearTimeout(timer)
      waits.delete(wait)
      request.waitedMs = performance.now() - startedAt
    }
    return payload
  })
}
