import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { DATA_HEADERS, transportSecurity } from './common-headers.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Headers that restrict what browsers may do with a response. */
    securityHeaders: Readonly<Record<string, string>>
  }
}

/** Adds a hook that sets the security headers and `no-store` in a scope. Routes may override them. */
export function secureResponses (scope: FastifyInstance): void {
  const headers = {
    ...scope.securityHeaders,
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store'
  }
  scope.addHook('onRequest', (_request, reply, done) => {
    reply.headers(headers)
    done()
  })
}

/** Adds missing security headers to a response. Requests that Fastify can't route run no hooks. */
export function secureResponse (reply: FastifyReply): void {
  for (const [name, value] of Object.entries(reply.server.securityHeaders)) {
    if (!reply.hasHeader(name)) reply.header(name, value)
  }
}

export default fp(async (app) => {
  app.decorate(
    'securityHeaders',
    Object.freeze({ ...DATA_HEADERS, ...Object.fromEntries(transportSecurity(app.config)) })
  )
}, { name: 'security-headers' })
