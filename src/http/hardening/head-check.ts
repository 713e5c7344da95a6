// Attack: a missing, repeated or invalid Host. A cache may store the response for another host (RFC 9112).
// Attack: thousands of short headers, which cost 50 times as much as the refusal of a normal request.
// Test: test/integration/hostile/http.test.ts
// nginx: stops the first, not the second

import fp from 'fastify-plugin'
import type { FastifyRequest } from 'fastify'
import { TooManyHeadersError } from '../../errors.ts'

/** Headers of a request, those that proxies add included. */
export const MAX_HEADERS = 100

/** RFC 3986, 3.2.2. Repeated Hosts don't match, because Node joins them with a comma and a space. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/
/** The last valid Host. Nearly all requests have the same one, and comparing is faster than matching. */
let knownHost: string | undefined

/**
 * Checks the head of a request.
 *
 * @throws {Error} with status 400 if the Host header is missing, repeated or invalid
 * @throws {TooManyHeadersError} 431
 */
export function checkHead ({ raw }: FastifyRequest): void {
  if (raw.rawHeaders.length > 2 * MAX_HEADERS) throw new TooManyHeadersError(MAX_HEADERS)
  const { host } = raw.headers
  if (host !== undefined && host === knownHost) return
  if (host === undefined ? raw.httpVersionMinor === 1 : !HOST.test(host)) {
    throw Object.assign(new Error('no Host header, or more than one'), { statusCode: 400 })
  }
  knownHost = host
}

export default fp(async (app) => {
  app.addHook('onRequest', (request, _reply, done) => {
    checkHead(request)
    done()
  })
}, { name: 'head-check' })
