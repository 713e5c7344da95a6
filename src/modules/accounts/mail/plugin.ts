import { randomInt } from 'node:crypto'
import fp from 'fastify-plugin'
import { runPeriodically } from '../../../infra/system/periodic-task.ts'
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

/** Interval between checks for mails of other processes, and for mails whose next attempt is due. */
const CHECK_INTERVAL_MS = 5_000
/** A woken sender starts after a random time, so that its work doesn't show which request queued a mail. */
const MAX_WAKE_DELAY_MS = 400

/** Sends mails if SMTP_URL is set. */
export default fp(async (app) => {
  const { database, log, metrics } = app
  const { SMTP_URL, MAIL_FROM, OPS_PORT } = app.config
  if (SMTP_URL === undefined || MAIL_FROM === undefined) {
    app.decorate('wakeMailSender', () => {})
    return
  }
  const send = createTransport({ SMTP_URL, MAIL_FROM })
  const sender = new MailSender({ database, log, send, baseUrl: app.baseUrl() })

  let wakeTimer: NodeJS.Timeout | undefined
  app.decorate('wakeMailSender', () => {
    wakeTimer ??= setTimeout(() => {
      wakeTimer = undefined
      sender.start()
    }, randomInt(MAX_WAKE_DELAY_MS)).unref()
  })

  let size = { waiting: 0, oldestSeconds: 0 }
  runPeriodically(app, { intervalMs: CHECK_INTERVAL_MS }, async () => {
    sender.start()
    if (OPS_PORT !== undefined) size = await measureQueue(database).catch(() => size)
  })
  app.addHook('preClose', async () => {
    clearTimeout(wakeTimer)
    sender.stop()
  })
  app.addHook('onClose', async () => await sender.idle())

  const { counts } = sender
  addMetrics(metrics, {
    landfall_mails_sent_total: ['Mails that the mail server has taken', () => counts.sent, { label: 'kind' }],
    landfall_mail_attempts_failed_total: [
      'Attempts to send a mail that failed',
      () => counts.failed,
      { label: 'kind' }
    ],
    landfall_mails_given_up_total: [
      'Mails that are not sent, because the server refused them for good, or all attempts of a day failed',
      () => counts.givenUp,
      { label: 'kind' }
    ],
    landfall_mails_waiting: [
      'Mails that wait to be sent, by all processes',
      () => size.waiting,
      { aggregator: 'max' }
    ],
    landfall_oldest_mail_age_seconds: [
      'Age of the oldest mail that waits to be sent',
      () => size.oldestSeconds,
      { aggregator: 'max' }
    ]
  })
}, { name: 'mail', dependencies: ['database', 'metrics'] })
