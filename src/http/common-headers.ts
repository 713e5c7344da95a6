import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'

// Headers that several kinds of responses share. deploy/nginx/nginx.conf.template must repeat them;
// test/system/deploy/nginx.test.ts compares the two.

declare module 'fastify' {
  interface FastifyInstance {
    /** Headers that restrict what browsers may do with a response. */
    securityHeaders: Readonly<Record<string, string>>
  }
}

export const JSON_CONTENT_TYPE = 'application/json; charset=utf-8'

/** For data. Browsers must not run it, show it in a frame, or send its URL to other sites. */
export const DATA_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer'
} as const

/** For errors of routes that web pages of any origin may read. */
export const ANY_ORIGIN_ERROR_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'Allow, Retry-After, X-Request-Id'
} as const

/** For responses to public reads of documents. */
export const DOCUMENT_CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'ETag, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Link, Cache-Status, Age, Location',
  // Scripts may measure how long a read takes.
  'timing-allow-origin': '*'
} as const

/** For all responses under /uploads/, including errors. A file that is opened as a page runs in a sandbox. */
export const FILE_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Last-Modified, X-Request-Id',
  'cross-origin-resource-policy': 'cross-origin',
  'x-content-type-options': 'nosniff',
  'content-security-policy':
    "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; form-action " +
    "'none'; base-uri 'none'; sandbox"
} as const

/** For PDFs. Browsers open no PDF viewer in a sandbox, and Chrome's needs inline styles and an object. */
export const PDF_POLICY =
  "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

/** For uploaded files. The content of a file name never changes. */
export const IMMUTABLE = `public, max-age=${365 * 24 * 60 * 60}, immutable`

/**
 * Returns the Strict-Transport-Security header if BASE_URL is https://, otherwise nothing. Browsers that have
 * seen it refuse plain HTTP, so it must not be sent while an operator tries out the service.
 */
export const transportSecurity = (
  { BASE_URL, STRICT_TRANSPORT_SECURITY }: Pick<Config, 'BASE_URL' | 'STRICT_TRANSPORT_SECURITY'>
): readonly (readonly [name: string, value: string])[] =>
  BASE_URL?.startsWith('https://') === true ? [['strict-transport-security', STRICT_TRANSPORT_SECURITY]] : []

/** The headers in which caches look for tags. */
const TAG_HEADERS = {
  cloudflare: 'cache-tag',
  http: 'cache-tag',
  fastly: 'surrogate-key',
  varnish: 'xkey'
} as const

/** Returns the tag under which a cache in front of the service finds what to purge. */
export const cacheTag = (name: string): string => `lf-${name}`

/**
 * Returns the header with the tag of a response, otherwise nothing.
 *
 * @param name the public id of a page, or the name of a file
 */
export const cacheTagHeader = (
  { CDN_PURGE }: Pick<Config, 'CDN_PURGE'>,
  name: string
): readonly (readonly [name: string, value: string])[] =>
  CDN_PURGE === undefined ? [] : [[TAG_HEADERS[CDN_PURGE], cacheTag(name)]]

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
