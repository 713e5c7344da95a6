import { Type, type TObject, type TSchema } from '@sinclair/typebox'
import serializerOf from 'fast-json-stringify'
import type { FastifyInstance, FastifySchema, FastifySerializerCompiler } from 'fastify'

// Schemas that the modules share. A schema with a title becomes a component of that name in the
// OpenAPI document (`openapi/finish.ts`).

export const Errors = Type.Object({
  errors: Type.Array(Type.String(), { minItems: 1, description: 'Sentences that describe what is wrong' })
}, { title: 'Errors', description: 'The body of every error response' })

export const IdParams = Type.Object({
  id: Type.String({
    format: 'uuid',
    description: 'The `id` of the record',
    examples: ['019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57']
  })
})

/** A time, or null. */
export const nullableTime = (description: string) =>
  Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })

/** The rules of a name that is shown to people. */
export const NAME_RULES = {
  minLength: 1,
  maxLength: 100,
  check: (name: string): string[] =>
    name.isWellFormed() && /[^\p{Z}]/u.test(name) && !/[\p{C}\p{Zl}\p{Zp}]/u.test(name) ? []
      : ['contains characters that are not valid']
} as const

export const optionalHeader = (description: string) => Type.Optional(Type.String({ description }))

/** The conditional headers of a GET (RFC 9110, 13.1). */
export const ReadConditions = Type.Object({
  'if-none-match': optionalHeader('Answer 304 if the current ETag is one of these'),
  'if-modified-since': optionalHeader('Answer 304 if there was no change since this date'),
  'if-match': optionalHeader('Answer 412 unless the current ETag is one of these'),
  'if-unmodified-since': optionalHeader('Answer 412 if there was a change since this date')
})

/** The conditional headers of a write of a resource that has no time of its last change. */
export const TagConditions = Type.Object({
  'if-match': optionalHeader('Write only if the current ETag is one of these'),
  'if-none-match': optionalHeader('Write only if the current ETag is none of these')
})

export const WriteConditions = Type.Object({
  ...TagConditions.properties,
  'if-unmodified-since': optionalHeader('Write only if there was no change since this date')
})

/** The headers of a write that changes what readers get. */
export const PublishHeaders = Type.Object({
  ...WriteConditions.properties,
  prefer:
    optionalHeader('`wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds')
})
/** The headers of the response to such a write. */
export const RECEIPT: readonly ResponseHeader[] = ['Preference-Applied?', 'Landfall-Publication?']

/** The `security` of routes that take access tokens only. */
export const bearer = [{ bearer: [] }] as const

/** The response headers in the OpenAPI document: their meaning, an example, and more of their schema. */
export const HEADERS = {
  'X-Request-Id': [
    'Id of the request: the valid id that the client sent, or a generated one. The log contains it, so ' +
    'include it in problem reports.',
    'fQ2xVbY0p9Lk-1c'
  ],
  'Cache-Control': ['Who may cache the response, and for how long', 'no-store'],
  'Retry-After': ['Seconds to wait before the next attempt', 34, { minimum: 1 }],
  'WWW-Authenticate': [
    'How to authenticate; `Bearer error="invalid_token"` if the token or key is not valid, `Bearer ' +
    'error="insufficient_scope"` with the missing scope of a key',
    'Bearer'
  ],
  Location: [
    'Where the new record is, relative to the URL of the request',
    '/assets/019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'
  ],
  'Set-Cookie': [
    'The cookie with the next refresh token, or without a value to delete it',
    '__Secure-landfall_session=; Max-Age=0; Path=/auth/browser_session; HttpOnly; SameSite=Strict; Secure'
  ],
  Allow: ['The methods that the URL supports', 'GET, HEAD, OPTIONS'],
  'Accept-Patch': ['The media types that a PATCH may have', 'application/json'],
  'Accept-Encoding': ['The Content-Encoding that a request may have; `identity` is none', 'identity'],
  ETag: [
    'Version of the response, for `If-None-Match` and `If-Match`. `If-Match` accepts the ETag of a page ' +
    'and that of its document on all routes of the page. That of a compressed response ends with `-br` ' +
    'or `-gzip`.',
    '"NRbMYOdxUAbdrPSZkCyDGfRL8fUxR6qnXzJ0WlBpRRs"',
    { pattern: '^"[^"]+"$' }
  ],
  'Last-Modified': ['Time of the last change', 'Fri, 21 Nov 2025 16:34:05 GMT'],
  Vary: ['The request headers on which the response depends', 'Accept-Encoding'],
  'Content-Encoding': ['Compression of the body, `br` or `gzip`, chosen by `Accept-Encoding`', 'br'],
  Link: [
    'Relative URL of the next page of the list; absent on the last page',
    '</assets?limit=50&cursor=AZp8Hl9gfDqdKw9qTI4bVw>; rel="next"',
    { pattern: '^<[^>]+>; rel="next"$' }
  ],
  RateLimit: [
    'Remaining reads: `r` reads in the next `t` seconds (draft-ietf-httpapi-ratelimit-headers)',
    '"public";r=29;t=60',
    { pattern: '^"[a-z-]+";r=\\d+;t=\\d+$' }
  ],
  'RateLimit-Policy': [
    'The limit that applies: `q` reads in `w` seconds, for all clients (`public`) or for allowed hosts ' +
    '(`allowed-host`)',
    '"public";q=30;w=60',
    { pattern: '^"[a-z-]+";q=\\d+;w=\\d+$' }
  ],
  'Landfall-Preview': ['Which document this is: `draft`, or `document` if the page has no draft', 'draft'],
  'Preference-Applied': ['`wait`: readers get the change everywhere. Only with `Prefer: wait`', 'wait'],
  'Landfall-Publication': [
    'What the change has reached. `replicas`: no replica that is connected to Redis answers a new read ' +
    'with an older version. `cdn`: a CDN was purged of it. Only with `Prefer: wait`',
    'replicas'
  ],
  'X-Robots-Tag': ['Search engines must not index the response', 'noindex'],
  'Cache-Status': [
    'Where the document came from: `landfall; hit` (memory), `landfall; fwd=miss` (Redis or ' +
    'PostgreSQL), `landfall; hit; detail=stale` (memory, while PostgreSQL is unreachable)',
    'landfall; hit'
  ],
  Age: ['Seconds since a stale document was last known to be current', 12, { minimum: 0 }],
  'Cache-Tag': ['The tag by which the service purges Cloudflare or another CDN', 'lf-7Hq2LJtB7sZ4uNfE8aGd1o'],
  'Surrogate-Key': ['The tag by which the service purges Fastly', 'lf-7Hq2LJtB7sZ4uNfE8aGd1o'],
  xkey: ['The tag by which the service purges Varnish', 'lf-7Hq2LJtB7sZ4uNfE8aGd1o'],
  'Accept-Ranges': ['Unit in which parts of the file can be requested with `Range`', 'bytes'],
  'Content-Range': [
    'Position of this part in the file, and the size of the file in bytes',
    'bytes 0-99/1234'
  ],
  'Content-Disposition': [
    '`inline` for images, audio, video, fonts and PDF, `attachment` with the name of the file for ' +
    'everything else',
    'inline'
  ],
  'Access-Control-Allow-Origin': ['Web pages of any origin may read the response', '*'],
  'Access-Control-Expose-Headers': [
    'Response headers that scripts of other origins may read',
    'ETag, Retry-After, X-Request-Id'
  ],
  'Access-Control-Allow-Methods': ['Methods that scripts of other origins may use', 'GET, HEAD, OPTIONS'],
  'Access-Control-Allow-Headers': [
    'Request headers that scripts of other origins may send',
    'If-None-Match, X-Request-Id'
  ],
  'Access-Control-Max-Age': ['Seconds for which browsers may cache this response', 86400, { minimum: 1 }]
} as const satisfies Record<string, readonly [meaning: string, example: string | number, more?: object]>

type HeaderName = keyof typeof HEADERS
/** The name of a header. With a question mark at the end, the header is optional. */
export type ResponseHeader = HeaderName | `${HeaderName}?`
/** One of them is there if the service purges a CDN. */
export const CACHE_TAGS: readonly ResponseHeader[] = ['Cache-Tag?', 'Surrogate-Key?', 'xkey?']

/** Returns the schemas of the named headers, of X-Request-Id and of Cache-Control. */
export function headersNamed (names: readonly ResponseHeader[]): Record<string, object> {
  return Object.fromEntries(['X-Request-Id', 'Cache-Control', ...names].map((named) => {
    const name = named.replace('?', '') as HeaderName
    const [description, example, more] = HEADERS[name] as readonly [string, string | number, object?]
    const type = typeof example === 'number' ? 'integer' : 'string'
    return [name, { type, description, examples: [example], ...more, 'x-optional': named.endsWith('?') }]
  }))
}

/**
 * Describes a response of a route.
 *
 * @param meaning the description of the response in the OpenAPI document
 * @param headers headers in addition to X-Request-Id and Cache-Control
 */
export const response = <T extends TSchema>(schema: T, meaning: string, ...headers: ResponseHeader[]): T => ({
  ...schema,
  'x-response-description': meaning,
  headers: headersNamed(headers)
})

const serializers = new WeakMap<object, ReturnType<typeof serializerOf>>()

/**
 * Fastify's serializer compiler for all routes. The copies that `response()` makes of a schema differ only in
 * their descriptions, so they share one serializer; to compile one for each takes 40 ms.
 */
export const serializerCompiler: FastifySerializerCompiler<TSchema> = ({ schema }) => {
  const key: object = schema.properties ?? schema
  const serializer = serializers.get(key) ?? serializerOf(schema)
  serializers.set(key, serializer)
  return serializer
}

/** Describes a response without a body. */
export const nothing = (meaning: string, ...headers: ResponseHeader[]) =>
  response(Type.Null(), meaning, ...headers)

/** Describes a GET with an ETag: its conditional headers, and the responses 200 and 304. */
export const conditionalRead = <T extends TSchema>(schema: T, what: string) => ({
  headers: ReadConditions,
  response: {
    200: response(schema, what, 'ETag'),
    304: nothing('Not changed: the client has the current version', 'ETag')
  }
})

/** For each error status: its description, an example message, and additional headers. */
const ERRORS = {
  400: ['The URL, the Host header or the body is malformed', 'Request is malformed'],
  401: [
    'The access token or API key is missing or invalid, or the credentials in the body are wrong',
    'Missing or invalid access token',
    'WWW-Authenticate'
  ],
  403: ['The service does not allow this', 'API key lacks the scope pages:write', 'WWW-Authenticate?'],
  404: ['The record does not exist or belongs to another account', 'Not found'],
  405: ['The URL does not support the method', 'Method is not allowed here', 'Allow'],
  408: ['The body took too long to arrive', 'Request took too long to arrive'],
  409: [
    'The request does not fit the current state of the resource',
    'Operation 1 (test "/price"): the value is different'
  ],
  412: [
    'A condition, such as `If-Match`, is false',
    'The resource has changed: If-Match does not match its current ETag',
    'ETag?'
  ],
  413: ['The body, or a part of it, is too large', 'Request body is too large (maximum is 65536 bytes)'],
  415: [
    'The Content-Type is not supported, or the body has a Content-Encoding',
    'Content-Type must be application/json',
    'Accept-Encoding?',
    'Accept-Patch?'
  ],
  416: ['The range is outside of the file', 'Range lies outside of the file', 'Content-Range'],
  422: ['The request breaks rules; `errors` has one sentence per broken rule', "Current data can't be blank"],
  429: ['Too many requests', 'Too many requests, try again in 34 seconds', 'Retry-After'],
  500: [
    'Internal error; the sentence contains the request id',
    'Something went wrong (request fQ2xVbY0p9Lk-1c)'
  ],
  503: [
    'The service is overloaded, or a dependency is unavailable',
    'The service is temporarily unavailable, try again shortly',
    'Retry-After'
  ],
  507: ['There is no storage space left for uploads', 'There is no storage space left for uploads']
} as const satisfies Record<number, readonly [meaning: string, example: string, ...headers: ResponseHeader[]]>

type ErrorStatus = keyof typeof ERRORS

/**
 * Describes the error responses of a route, and the 405 that other methods of its URL get.
 *
 * @param headers additional headers of all these responses
 * @param sentences example messages by status, which replace the default ones
 */
export function errors<const S extends ErrorStatus> (
  statuses: readonly S[],
  headers: readonly ResponseHeader[] = [],
  sentences: { readonly [Status in S]?: string } = {}
): Record<S, typeof Errors> {
  return Object.fromEntries([...statuses, 405 as const].map((status) => {
    const [meaning, sentence, ...own] = ERRORS[status] as readonly [string, string, ...ResponseHeader[]]
    return [
      status,
      response(
        { ...Errors, examples: [{ errors: [sentences[status as S] ?? sentence] }] },
        meaning,
        ...own,
        ...headers
      )
    ]
  })) as Record<S, typeof Errors>
}

/** Gives all routes of a scope a tag in the OpenAPI document. That of an inner scope takes its place. */
export function tagRoutes (scope: FastifyInstance, tag: string): void {
  scope.addHook('onRoute', (route) => {
    route.schema = { ...route.schema, tags: [tag] }
  })
}

/**
 * Adds the error responses that most routes of the management API have to the schemas of a scope. A schema
 * has only those that are special about it.
 *
 * @param statuses what all routes of the scope have in addition
 */
export function describeCommonErrors (scope: FastifyInstance, statuses: readonly (401 | 403)[] = []): void {
  scope.addHook('onRoute', (route) => {
    const schema = route.schema as RouteSchema | undefined
    if (schema === undefined) return
    const isRead = ['GET', 'HEAD'].includes([route.method].flat()[0] as string)
    const common = errors(
      [
        ...[400, 422, 500, 503] as const,
        ...statuses,
        ...schema.params === undefined ? [] : [404] as const,
        ...schema.headers?.properties['if-match'] === undefined ? [] : [412] as const,
        ...isRead ? [] : [408, 413, 415] as const
      ],
      [],
      {
        ...schema.body !== undefined && MALFORMED_JSON,
        ...schema.body === undefined && (schema.querystring === undefined ? UNKNOWN_PARAMETER : BAD_LIMIT)
      }
    )
    route.schema = { ...schema, response: { ...common, ...schema.response } }
  })
}

type RouteSchema = FastifySchema & { readonly response?: object, readonly headers?: TObject }

// Messages of errors, as examples in the API description.

export const NOTHING_MATCHES = { 412: 'There is nothing here that If-Match could match' } as const

export const MALFORMED_JSON = { 400: 'Request body is not valid JSON (line 1, column 13)' } as const

const BAD_LIMIT = { 422: 'Limit must be a whole number from 1 to 100' } as const

export const UNKNOWN_PARAMETER = { 422: 'Query parameter page is unknown (this route has none)' } as const
