import { randomInt } from 'node:crypto'
import fp from 'fastify-plugin'
import { runQueue, watchBacklog } from '../../../infra/postgres/shared-work.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { measureQueue } from './queue-repository.ts'
import { MailSender } from './sender.ts'
import { createTransport } from './transport.ts'

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

/** Sends mails if SMTP_URL is set. */
export default fp(async (app) => {
  const { database, metrics } = app
  const { SMTP_URL, MAIL_FROM } = app.config
  if (SMTP_URL === undefined || MAIL_FROM === undefined) {
    app.decorate('wakeMailSender', () => {})
    return
  }
  const sender = new MailSender(app, createTransport({ SMTP_URL, MAIL_FROM }))
  const startQueue = runQueue(app, {
    name: 'mails',
    intervalMs: CHECK_INTERVAL_MS,
    maxRunning: MAX_SENDING,
    limitMs: SEND_LIMIT_MS,
    claim: async () => await sender.claim()
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

  const { counts } = sender
  addMetrics(metrics, {
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
