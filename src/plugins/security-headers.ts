import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Headers that tell browsers to make nothing else of an answer than what it is. */
    securityHeaders: Readonly<Record<string, string>>
  }
}

/** For answers that are data, whoever writes them: nothing in them runs, is framed, or tells others where a reader came from. */
export const DATA_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer'
} as const

/**
 * Strict-Transport-Security, where the service is reached through TLS. Elsewhere browsers have to ignore it, and an
 * operator who tries the service on http:// must not be locked out by it later.
 */
export const transportSecurity = ({ BASE_URL, STRICT_TRANSPORT_SECURITY }: Pick<Config, 'BASE_URL' | 'STRICT_TRANSPORT_SECURITY'>): readonly (readonly [name: string, value: string])[] =>
  BASE_URL?.startsWith('https://') === true ? [['strict-transport-security', STRICT_TRANSPORT_SECURITY]] : []

/** Adds the hook that gives all answers of a scope these headers, and keeps them from caches; a route's own win. */
export function secureAnswers (scope: FastifyInstance): void {
  const headers = { ...scope.securityHeaders, 'cross-origin-resource-policy': 'same-origin', 'cache-control': 'no-store' }
  scope.addHook('onRequest', (_request, reply, done) => {
    reply.headers(headers)
    done()
  })
}

/** Gives them to an answer that may have met no hook; those that it has stay. */
export function secureAnswer (reply: FastifyReply): void {
  for (const [name, value] of Object.entries(reply.server.securityHeaders)) {
    if (!reply.hasHeader(name)) reply.header(name, value)
  }
}

export default fp(async (app) => {
  app.decorate('securityHeaders', Object.freeze({ ...DATA_HEADERS, ...Object.fromEntries(transportSecurity(app.config)) }))
}, { name: 'security-headers' })
