import underPressure from '@fastify/under-pressure'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../errors.ts'
import { clock } from '../infra/system/clock.ts'
import { addMetrics } from '../infra/telemetry/metrics.ts'

/** Interval between measurements of the load. Requests are refused for at least this long. */
const SAMPLE_INTERVAL_MS = 1000

/** Values of the metric's label `reason`, by the type that @fastify/under-pressure reports. */
const REASONS: Readonly<Record<string, 'event_loop_delay' | 'heap' | 'rss'>> = {
  [underPressure.TYPE_EVENT_LOOP_DELAY]: 'event_loop_delay',
  [underPressure.TYPE_HEAP_USED_BYTES]: 'heap',
  [underPressure.TYPE_RSS_BYTES]: 'rss'
}

/**
 * Refuses the requests of its scope before their bodies are read while the process is overloaded. Event loop
 * utilisation isn't a criterion, because public reads at full speed use the loop fully without delaying it.
 */
export default fp(async (app) => {
  const shed = { event_loop_delay: 0, heap: 0, rss: 0 }
  addMetrics(app.metrics, {
    landfall_requests_shed_total: ['Requests refused by exceeded limit', () => shed, { label: 'reason' }]
  })
  // The first measurements include the start, after which the process isn't overloaded.
  let delayCountsFrom = Infinity
  app.addHook('onReady', () => {
    delayCountsFrom = clock.now() + 2 * SAMPLE_INTERVAL_MS
  })
  const { MAX_EVENT_LOOP_DELAY_MS, MAX_HEAP_BYTES, MAX_RSS_BYTES } = app.config
  await app.register(underPressure, {
    sampleInterval: SAMPLE_INTERVAL_MS,
    maxEventLoopDelay: MAX_EVENT_LOOP_DELAY_MS,
    maxHeapUsedBytes: MAX_HEAP_BYTES,
    maxRssBytes: MAX_RSS_BYTES,
    pressureHandler: async (_request, _reply, type) => {
      if (type === underPressure.TYPE_EVENT_LOOP_DELAY && clock.now() < delayCountsFrom) return
      shed[REASONS[type] ?? 'event_loop_delay']++
      throw new RetryLaterError(
        503,
        'The service is overloaded, try again shortly',
        2 * SAMPLE_INTERVAL_MS / 1000
      )
    }
  })
}, { name: 'load-shedding', dependencies: ['metrics'] })
