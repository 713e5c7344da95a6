import type { FastifyInstance } from 'fastify'
import { sendsMail } from '../../../config.ts'
import { deriveSecret } from '../../../infra/system/identifiers.ts'
import { VERSION } from '../../../infra/system/version.ts'
import { CDN_TARGETS } from '../../landing-pages/index.ts'
import { TEST_EVENT } from '../webhook-repository.ts'
import { bodyOf, signatureHeaders } from './message.ts'
import { claimMessage, finishMessage, noteFailure, noteSuccess, pauseWebhook, putBackMessage, removeMessage,
  type OutgoingMessage, type Result } from './outgoing-repository.ts'
import type { Post } from './post.ts'

/** Messages that a process sends to a webhook at the same time; one if its last attempt has failed. */
const MAX_TO_WEBHOOK = 4
/** Messages that a process sends at the same time. Many, because each may wait 15 s for a slow receiver. */
export const MAX_SENDING = 200
/** Messages that a process sends at the same time for an account: at most, and of the room that is left. */
const MAX_FOR_ACCOUNT = 10
const SHARE_OF_ROOM = 0.1
/** Messages that a process sends at the same time to webhooks whose last attempt has failed. */
const MAX_TO_FAILING = 100

const MINUTE = 60
const HOUR = 60 * MINUTE
/** The times between the attempts of a message, in seconds, each varied by a fifth. */
const RETRY_SECONDS = [
  5,
  MINUTE,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR
]
const GONE = 410
/** A receiver that failed for this long was away. As soon as one message arrives, the others are sent. */
const AWAY_MS = 60 * 1000
/** Shorter than the time in which all attempts of a message are made, which varies. */
const FAILING_LONG_MS = 60 * HOUR * 1000

/** Returns how long a message waits after its failed attempt; undefined after the last one. */
export function retrySeconds (
  attempts: number,
  retryAfterSeconds = 0,
  random = Math.random()
): number | undefined {
  const seconds = RETRY_SECONDS[attempts - 1]
  return seconds && Math.max(seconds * (0.8 + 0.4 * random), retryAfterSeconds)
}

/** Sends the messages of webhooks. */
export class MessageSender {
  readonly attempts = { delivered: 0, failed: 0 }
  givenUp = 0
  readonly paused = { gone: 0, failing: 0 }
  readonly #app: FastifyInstance
  readonly #post: Post
  /** Messages under way, by webhook and by account. One to a failing webhook counts as all it may get. */
  readonly #toWebhooks = new Map<string, number>()
  readonly #forAccounts = new Map<number, number>()
  #failing = 0
  /** Claims follow each other, because each has to know the webhooks that are busy. */
  #claiming: Promise<unknown> = Promise.resolve()

  constructor (app: FastifyInstance, post: Post) {
    this.#app = app
    this.#post = post
  }

  /** Claims a message that is due. @returns the function that sends it; undefined when none is due */
  async claim (): Promise<((signal: AbortSignal) => Promise<void>) | undefined> {
    const claim = this.#claiming.then(async () => {
      const isCrowded = this.#failing >= MAX_TO_FAILING
      const message = await claimMessage(this.#app.database, this.#busy(), isCrowded)
      if (message !== undefined) this.#count(message, 1)
      return message
    })
    this.#claiming = claim.catch(() => {})
    const message = await claim
    return message &&
      (async (signal) => await this.#send(message, signal).finally(() => this.#count(message, -1)))
  }

  #busy () {
    const sending = [...this.#forAccounts.values()].reduce((sum, count) => sum + count, 0)
    const room = Math.floor((MAX_SENDING - sending) * SHARE_OF_ROOM)
    const maxForAccount = Math.min(Math.max(room, 1), MAX_FOR_ACCOUNT)
    return {
      // The purger claims those of the CDN.
      webhooks: [
        ...CDN_TARGETS,
        ...[...this.#toWebhooks].filter(([, count]) => count >= MAX_TO_WEBHOOK).map(([id]) => id)
      ],
      accounts: [...this.#forAccounts].filter(([, count]) => count >= maxForAccount).map(([id]) => id)
    }
  }

  #count ({ target, userId, failingSince }: OutgoingMessage, difference: number): void {
    if (failingSince !== null) this.#failing += difference
    addTo(this.#toWebhooks, target, failingSince === null ? difference : difference * MAX_TO_WEBHOOK)
    addTo(this.#forAccounts, userId, difference)
  }

  async #send (message: OutgoingMessage, signal: AbortSignal): Promise<void> {
    if (!message.isClaimed) return
    const { database } = this.#app
    const { attempts, target, type, url } = message
    if (url === null) return await removeMessage(database, message)
    if (message.active !== true && type !== TEST_EVENT) {
      const nothing = { status: null, error: null, durationMs: null }
      return await putBackMessage(database, message, attempts - 1, 0, nothing)
    }
    const body = bodyOf(message)
    const startedAt = performance.now()
    const { retryAfterSeconds, ...outcome } = await this.#post(
      url,
      {
        'content-type': 'application/json',
        'user-agent': `Landfall/${VERSION}`,
        ...signatureHeaders(message.id, body, Date.now(), this.#secretsOf(message))
      },
      body,
      signal
    )
    if (signal.aborted) return // a shutdown: another process sends it when the claim lapses
    const result = { ...outcome, durationMs: Math.round(performance.now() - startedAt) }
    if (result.error !== null) return await this.#handleFailure(message, result, retryAfterSeconds)
    this.attempts.delivered++
    await finishMessage(database, message, 'delivered', result)
    if (message.failingSince !== null) await noteSuccess(database, target, hasFailedFor(message, AWAY_MS))
  }

  #secretsOf ({ target, generation, isRotating }: OutgoingMessage): Buffer[] {
    const current = generation as number
    const generations = isRotating === true ? [current, current - 1] : [current]
    return generations.map((one) => deriveSecret(this.#app.secretsKey, 'webhook', target, one))
  }

  async #handleFailure (message: OutgoingMessage, result: Result, retryAfterSeconds?: number): Promise<void> {
    const { database, log } = this.#app
    const { attempts, id, target, type } = message
    this.attempts.failed++
    if (type === TEST_EVENT) {
      await finishMessage(database, message, 'failed', result)
      return
    }
    await noteFailure(database, target)
    const { status, error: failure } = result
    if (status === GONE) await this.#pause(target, 'gone')
    const seconds = retrySeconds(attempts, retryAfterSeconds)
    const isLast = seconds === undefined && status !== GONE
    // Without the URL, which may contain a token of the owner.
    log[isLast ? 'warn' : 'info'](
      { webhook: target, message: id, attempts, status, failure, last: isLast },
      'message not delivered'
    )
    if (!isLast) return await putBackMessage(database, message, attempts, seconds ?? 0, result)
    if (!await finishMessage(database, message, 'failed', result)) return
    this.givenUp++
    if (hasFailedFor(message, FAILING_LONG_MS)) await this.#pause(target, 'failing')
  }

  async #pause (target: string, reason: 'gone' | 'failing'): Promise<void> {
    const { config, database, log } = this.#app
    if (!await pauseWebhook(database, target, reason, sendsMail(config))) return
    this.paused[reason]++
    log.warn({ webhook: target, reason }, 'webhook paused')
  }
}

/** Whether the webhook has failed for longer than `ms`. */
const hasFailedFor = ({ failingSince }: OutgoingMessage, ms: number): boolean =>
  failingSince !== null && Date.now() - failingSince.getTime() > ms

function addTo<Key> (counts: Map<Key, number>, key: Key, difference: number): void {
  const count = (counts.get(key) ?? 0) + difference
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
