import { randomInt } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { runQueue, watchBacklog } from '../../../infra/postgres/shared-work.ts'
import { createToken, hashToken } from '../../../infra/system/identifiers.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { isLinkKind, linkTo } from './link-pages.ts'
import { claimMail, measureQueue, postponeMail, removeMail, type ClaimedMail,
  type MailKind } from './queue-repository.ts'
import { MAIL_KINDS, writeMail } from './texts.ts'
import { createTransport, describeFailure, isPermanent, type SendMail } from './transport.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Call it after a statement that may have queued a mail, so that the mail leaves soon. */
    wakeMailSender: () => void
  }
}

const CHECK_INTERVAL_MS = 5_000
const MAX_SENDING = 4
/** Shorter than a claim, which lapses after 60 s. */
const SEND_LIMIT_MS = 45_000
/** A woken sender starts after a random time, so that its work doesn't show which request queued a mail. */
const MAX_WAKE_DELAY_MS = 400

const FIRST_RETRY_SECONDS = 15
const MAX_RETRY_SECONDS = 5 * 60
const MAX_AGE_SECONDS = 24 * 60 * 60

/** Returns how long a mail waits after its failed attempt number `attempts`, in seconds. */
export const retrySeconds = (attempts: number): number =>
  Math.min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))

type Counts = Record<MailKind, number>
const noCounts = () => Object.fromEntries(MAIL_KINDS.map((kind) => [kind, 0])) as Counts

/** A newer release may have queued a kind that this one doesn't know. */
function count (counts: Partial<Counts>, kind: MailKind): void {
  counts[kind] = (counts[kind] ?? 0) + 1
}

/** Creates the function that sends a claimed mail, and counts of what became of the mails. */
function createSender (app: FastifyInstance, send: SendMail) {
  const { database, log } = app
  const counts = { sent: noCounts(), failed: noCounts(), givenUp: noCounts() }

  async function deliver (mail: ClaimedMail, token: string, signal: AbortSignal): Promise<void> {
    const { id, kind, attempts, recipient } = mail
    if (isLinkKind(kind) && !mail.hasLink) { // a newer mail carries the link, or no link may be used any more
      await removeMail(database, mail)
      return
    }
    try {
      const baseUrl = app.baseUrl()
      const link = isLinkKind(kind) ? linkTo(baseUrl, kind, token) : undefined
      const text = writeMail(kind, { ...mail, baseUrl, link })
      // A new attempt has a new link, so receivers must not take it for the same mail.
      const unique = link === undefined ? id : `${id}.${attempts}`
      await send({ ...text, messageId: `${unique}@${new URL(baseUrl).hostname}`, recipient }, signal)
    } catch (error) {
      return await handleFailure(mail, error)
    }
    count(counts.sent, kind)
    log.info({ mail: id, kind, attempts, user: mail.userId ?? undefined }, 'mail sent')
    await removeMail(database, mail)
  }

  async function handleFailure (mail: ClaimedMail, error: unknown): Promise<void> {
    const { id, kind, attempts, userId } = mail
    count(counts.failed, kind)
    const failure = describeFailure(error)
    const about = { mail: id, kind, attempts, user: userId ?? undefined, failure }
    if (isPermanent(error) || mail.ageSeconds >= MAX_AGE_SECONDS) {
      if (!await removeMail(database, mail)) return
      count(counts.givenUp, kind)
      log.warn(about, 'mail given up')
      return
    }
    const seconds = retrySeconds(attempts)
    log.warn(about, `mail not sent; trying again in ${seconds} seconds`)
    await postponeMail(database, mail, seconds)
  }

  return { counts, deliver }
}

/** Sends mails if SMTP_URL is set. */
export default fp(async (app) => {
  const { database } = app
  const { SMTP_URL, MAIL_FROM } = app.config
  if (SMTP_URL === undefined || MAIL_FROM === undefined) {
    app.decorate('wakeMailSender', () => {})
    return
  }
  const { counts, deliver } = createSender(app, createTransport({ SMTP_URL, MAIL_FROM }))
  const startQueue = runQueue(app, {
    name: 'mails',
    intervalMs: CHECK_INTERVAL_MS,
    maxRunning: MAX_SENDING,
    limitMs: SEND_LIMIT_MS,
    claim: async () => {
      const token = createToken()
      const mail = await claimMail(database, hashToken(token))
      return mail && (async (signal: AbortSignal) => await deliver(mail, token, signal))
    }
  })
  const backlog = watchBacklog(app, CHECK_INTERVAL_MS, async () => await measureQueue(database))

  let wakeTimer: NodeJS.Timeout | undefined
  app.decorate('wakeMailSender', () => {
    wakeTimer ??= setTimeout(() => {
      wakeTimer = undefined
      startQueue()
    }, randomInt(MAX_WAKE_DELAY_MS)).unref()
  })
  app.addHook('preClose', async () => clearTimeout(wakeTimer))

  addMetrics(app.metrics, {
    landfall_mails_sent_total: ['Mails that the mail server has taken', () => counts.sent, { label: 'kind' }],
    landfall_mail_attempts_failed_total: ['Failed attempts', () => counts.failed, { label: 'kind' }],
    landfall_mails_given_up_total: ['Mails that are not sent', () => counts.givenUp, { label: 'kind' }],
    landfall_mails_waiting: ['Mails of all processes that wait', () => backlog().count, {
      aggregator: 'max'
    }],
    landfall_oldest_mail_age_seconds: [
      'Age of the oldest mail that waits to be sent',
      () => backlog().oldestSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'mail', dependencies: ['database', 'metrics'] })
