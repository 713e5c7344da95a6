import underPressure from '@fastify/under-pressure'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../errors.ts'
import { counterOf } from './metrics.ts'

/** How often the process looks at itself, and so how long a refusal lasts at least. */
const SAMPLE_INTERVAL_MS = 1000

/** By @fastify/under-pressure's own names. */
const REASONS: Readonly<Record<string, 'event_loop_delay' | 'heap' | 'rss'>> = {
  [underPressure.TYPE_EVENT_LOOP_DELAY]: 'event_loop_delay',
  [underPressure.TYPE_HEAP_USED_BYTES]: 'heap',
  [underPressure.TYPE_RSS_BYTES]: 'rss'
}

class OverloadedError extends RetryLaterError {
  constructor () {
    super(503, 'The service is overloaded, try again shortly', 2 * SAMPLE_INTERVAL_MS / 1000)
  }
}

/**
 * Refuses what arrives in its scope while the process is behind with its work, before a body is read or the database
 * asked, so that what is left of the process goes to the scopes beside it. How busy the event loop is counts for
 * nothing: public reads at full speed keep it busy and on time.
 */
export default fp(async (app) => {
  const shed = { event_loop_delay: 0, heap: 0, rss: 0 }
  counterOf(app.metrics, { name: 'landfall_requests_shed_total', help: 'Management requests refused because the process was behind with its work, by the limit that was passed' }, () => shed, 'reason')
  const { MAX_EVENT_LOOP_DELAY_MS, MAX_HEAP_BYTES, MAX_RSS_BYTES } = app.config
  await app.register(underPressure, {
    sampleInterval: SAMPLE_INTERVAL_MS,
    maxEventLoopDelay: MAX_EVENT_LOOP_DELAY_MS,
    maxHeapUsedBytes: MAX_HEAP_BYTES,
    maxRssBytes: MAX_RSS_BYTES,
    pressureHandler: async (_request, _reply, type) => {
      shed[REASONS[type] ?? 'event_loop_delay']++
      throw new OverloadedError()
    }
  })
}, { name: 'load-shedding', dependencies: ['metrics'] })
