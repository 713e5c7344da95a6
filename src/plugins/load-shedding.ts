import underPressure from '@fastify/under-pressure'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../errors.ts'

/** How often the process looks at itself, and so how long a refusal lasts at least. */
const SAMPLE_INTERVAL_MS = 1000

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
  const { MAX_EVENT_LOOP_DELAY_MS, MAX_HEAP_BYTES, MAX_RSS_BYTES } = app.config
  await app.register(underPressure, {
    sampleInterval: SAMPLE_INTERVAL_MS,
    maxEventLoopDelay: MAX_EVENT_LOOP_DELAY_MS,
    maxHeapUsedBytes: MAX_HEAP_BYTES,
    maxRssBytes: MAX_RSS_BYTES,
    customError: OverloadedError
  })
}, { name: 'load-shedding' })
