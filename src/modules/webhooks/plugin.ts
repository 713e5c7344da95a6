import fp from 'fastify-plugin'
import { runQueue, watchBacklog, runInOneProcess } from '../../infra/postgres/shared-work.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { CDN_TARGETS, measureOverdue } from '../landing-pages/index.ts'
import { pruneMessages } from './webhook-repository.ts'
import { allowedAddresses, createPost } from './sending/post.ts'
import { MAX_SENDING, MessageSender } from './sending/sender.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The key from which the secrets of webhooks are derived. */
    secretsKey: string
    /** Call it after messages were queued that are due at once. */
    wakeMessageSender: () => void
  }
}

/** Interval between checks for messages of all processes. */
const CHECK_INTERVAL_MS = 1_000
/** Time limit of one delivery: more than its request takes, less than its claim, which lapses after 30 s. */
const SEND_LIMIT_MS = 25_000
const MEASURE_INTERVAL_MS = 15_000
const HOUR_MS = 60 * 60 * 1000
const FIRST_CLEANUP_MS = 5 * 60 * 1000

/** Sends the messages of webhooks, and removes old ones. */
export default fp<{ secretsKey: string }>(async (app, { secretsKey }) => {
  const { config, database, log, metrics } = app
  app.decorate('secretsKey', secretsKey)
  if (!config.WEBHOOKS) return
  if (config.JWT_SECRET_PREVIOUS !== undefined && config.SECRETS_KEY === undefined) {
    log.warn('JWT_SECRET is being replaced without SECRETS_KEY, so the secrets of webhooks change; see ' +
      '"Replacing the secret" in docs/operations.md')
  }
  const sender = new MessageSender(app, createPost(allowedAddresses(config.WEBHOOK_NETWORKS)))
  const startQueue = runQueue(app, {
    name: 'messages',
    intervalMs: CHECK_INTERVAL_MS,
    maxRunning: MAX_SENDING,
    limitMs: SEND_LIMIT_MS,
    claim: async () => await sender.claim()
  })
  app.decorate('wakeMessageSender', startQueue)

  const overdue = watchBacklog(
    app,
    MEASURE_INTERVAL_MS,
    async () => await measureOverdue(database, { notIn: CDN_TARGETS }, 'dueAt')
  )
  let removed = 0
  const times = { intervalMs: HOUR_MS, extraAfterMs: FIRST_CLEANUP_MS }
  runInOneProcess(app, { name: 'message_cleanup', ...times }, async (signal) => {
    removed += await pruneMessages(database, signal)
  })

  addMetrics(metrics, {
    landfall_webhook_attempts_total: [
      'Attempts to send a message to a webhook',
      () => sender.attempts,
      { label: 'result' }
    ],
    landfall_webhook_messages_given_up_total: [
      'Messages to webhooks that all attempts of three days could not deliver',
      () => sender.givenUp
    ],
    landfall_webhooks_paused_total: [
      'Webhooks that the service has paused, by reason',
      () => sender.paused,
      { label: 'reason' }
    ],
    landfall_webhook_messages_overdue: [
      'Messages to webhooks that are due but not sent yet, by all processes',
      () => overdue().count,
      { aggregator: 'max' }
    ],
    landfall_oldest_overdue_message_seconds: [
      'How long the oldest of them has been due',
      () => overdue().oldestSeconds,
      { aggregator: 'max' }
    ],
    landfall_removed_webhook_messages_total: [
      'Messages that were removed from the log of webhooks because of their age or number',
      () => removed
    ]
  })
}, { name: 'webhooks', dependencies: ['database', 'metrics', 'mail'] })
