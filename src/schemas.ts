import { Type, type TSchema } from '@sinclair/typebox'

// What the rooms' schemas are made of. A schema with a title is one of the document's components, under that name
// (`plugins/openapi.ts`).

export const Errors = Type.Object({
  errors: Type.Array(Type.String(), { minItems: 1, description: 'What is wrong, each a sentence that a person can read' })
}, { title: 'Errors', description: 'The body of every error, whoever raises it' })

export const IdParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The `id` of the record', examples: ['019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'] }) })

/** The requirement of an access token. */
export const bearer = [{ bearer: [] }] as const

interface HeaderSchema {
  readonly type: 'string' | 'integer'
  readonly description: string
  readonly examples: readonly (string | number)[]
  readonly minimum?: number
  readonly pattern?: string
}

/** The headers of answers by their names. Those that an answer may go without end in a question mark where they are used. */
export const HEADERS = {
  'X-Request-Id': { type: 'string', description: "The request's id: the client's own when it sent a sane one. It is in the log, so name it in a report.", examples: ['fQ2xVbY0p9Lk-1c'] },
  'Cache-Control': { type: 'string', description: 'Who may keep the answer, and for how long', examples: ['no-store'] },
  'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds after which to come again', examples: [34] },
  'WWW-Authenticate': { type: 'string', description: 'How to authenticate', examples: ['Bearer'] },
  ETag: { type: 'string', pattern: '^"[^"]+"$', description: 'Version of what was read or written, for `If-None-Match` and `If-Match`. All routes accept what any of them gives out.', examples: ['"NRbMYOdxUAbdrPSZkCyDGfRL8fUxR6qnXzJ0WlBpRRs"'] },
  'Last-Modified': { type: 'string', description: 'When it was written last', examples: ['Fri, 21 Nov 2025 16:34:05 GMT'] },
  Vary: { type: 'string', description: 'The request headers on which the answer depends', examples: ['Accept-Encoding'] },
  'Content-Encoding': { type: 'string', description: 'How the body is compressed: `br` or `gzip`, as `Accept-Encoding` asks', examples: ['br'] },
  Link: { type: 'string', pattern: '^<[^>]+>; rel="next"$', description: 'Where the list goes on; there only while there is more', examples: ['<https://landfall.example.com/assets?limit=50&cursor=AZp8Hl9gfDqdKw9qTI4bVw>; rel="next"'] },
  RateLimit: { type: 'string', pattern: '^"[a-z-]+";r=\\d+;t=\\d+$', description: 'What is left of the limit: `r` reads for the next `t` seconds (draft-ietf-httpapi-ratelimit-headers)', examples: ['"public";r=29;t=60'] },
  'RateLimit-Policy': { type: 'string', pattern: '^"[a-z-]+";q=\\d+;w=\\d+$', description: 'The limit that counts: `q` reads in `w` seconds, for everybody (`public`) or for allowed hosts (`allowed-host`)', examples: ['"public";q=30;w=60'] },
  'Cache-Status': { type: 'string', description: 'Where the document came from: `landfall; hit` (memory), `landfall; fwd=miss` (Redis or PostgreSQL), `landfall; hit; detail=stale` (memory, while PostgreSQL is away)', examples: ['landfall; hit'] },
  Age: { type: 'integer', minimum: 0, description: 'Seconds since a stale document was last known to be current', examples: [12] },
  'Accept-Ranges': { type: 'string', description: 'Parts of the file can be asked for with `Range`', examples: ['bytes'] },
  'Content-Range': { type: 'string', description: 'Which part of the file this is, and of how many bytes', examples: ['bytes 0-99/1234'] },
  'Content-Disposition': { type: 'string', description: '`inline` for images, audio, video, fonts and PDF, `attachment` for everything else', examples: ['inline'] },
  'Access-Control-Allow-Origin': { type: 'string', description: 'Pages of every origin may read it', examples: ['*'] },
  'Access-Control-Expose-Headers': { type: 'string', description: 'The headers that their scripts see', examples: ['ETag, Retry-After, X-Request-Id'] },
  'Access-Control-Allow-Methods': { type: 'string', description: 'What their scripts may do', examples: ['GET, HEAD, OPTIONS'] },
  'Access-Control-Allow-Headers': { type: 'string', description: 'What their scripts may send', examples: ['If-None-Match, X-Request-Id'] },
  'Access-Control-Max-Age': { type: 'integer', minimum: 1, description: 'For how many seconds a browser need not ask again', examples: [86400] }
} as const satisfies Record<string, HeaderSchema>

type HeaderName = keyof typeof HEADERS
/** A header that is always there, or one that may be missing. */
export type AnswerHeader = HeaderName | `${HeaderName}?`

/** The document's headers of an answer: those named, and what each answer has. */
function headersNamed (names: readonly AnswerHeader[]): Record<string, object> {
  return Object.fromEntries(['X-Request-Id', 'Cache-Control', ...names].map((named) => {
    const name = named.replace('?', '') as HeaderName
    return [name, { ...HEADERS[name], 'x-optional': named.endsWith('?') }]
  }))
}

/**
 * What a status of a route answers with.
 *
 * @param meaning one sentence, for readers
 * @param headers beside X-Request-Id and Cache-Control, which nearly all answers have
 */
export const answer = <T extends TSchema>(schema: T, meaning: string, ...headers: AnswerHeader[]): T =>
  ({ ...schema, 'x-response-description': meaning, headers: headersNamed(headers) })

/** An answer without a body. */
export const nothing = (meaning: string, ...headers: AnswerHeader[]) => answer(Type.Null(), meaning, ...headers)

/** What each status means, a sentence that goes with it, and the headers that it has. */
const ERRORS = {
  400: ['The request is malformed: its URL, its Host or its body', 'Request is malformed'],
  401: ['There is no valid access token, or the credentials in the body are not right', 'Missing or invalid access token', 'WWW-Authenticate'],
  404: ["There is no such record, or it is somebody else's", 'Not found'],
  408: ['The body took too long to arrive', 'Request took too long to arrive'],
  412: ['The record has changed: `If-Match` names none of its current ETags', 'The resource has changed: If-Match does not match its current ETag'],
  413: ['The body, or what it holds, is too large', 'Request body is too large'],
  415: ['The body is of another type than the route takes, or encoded', 'Content-Type must be application/json'],
  416: ['The range lies outside of the file', 'Range lies outside of the file', 'Content-Range'],
  422: ['A rule is broken: every rule that is, in a sentence', "Current data can't be blank"],
  429: ['Too many requests', 'Too many requests, try again in 34 seconds', 'Retry-After'],
  500: ['Something went wrong; the sentence names the request', 'Something went wrong (request fQ2xVbY0p9Lk-1c)'],
  503: ['The service is overloaded, or something that it needs is away', 'The service is temporarily unavailable, try again shortly', 'Retry-After'],
  507: ['There is no room left for uploads', 'There is no room left for uploads']
} as const satisfies Record<number, readonly [meaning: string, example: string, ...headers: AnswerHeader[]]>

type ErrorStatus = keyof typeof ERRORS

/**
 * What a route refuses, by status.
 *
 * @param headers those of all of them
 * @param sentences what this route says, where it is something of its own
 */
export function errors<const S extends ErrorStatus> (statuses: readonly S[], headers: readonly AnswerHeader[] = [], sentences: { readonly [Status in S]?: string } = {}): Record<S, typeof Errors> {
  return Object.fromEntries(statuses.map((status) => {
    const [meaning, sentence, ...own] = ERRORS[status] as readonly [string, string, ...AnswerHeader[]]
    return [status, answer({ ...Errors, examples: [{ errors: [sentences[status] ?? sentence] }] }, meaning, ...own, ...headers)]
  })) as Record<S, typeof Errors>
}

/** What reading a JSON body may end with. */
export const BODY_ERRORS = [400, 408, 413, 415] as const
/** And what the first of them says then. */
export const NO_JSON = { 400: 'Request body is not valid JSON' } as const

/** What a list refuses. */
export const BAD_PAGE = { 422: 'Limit must be a whole number from 1 to 100' } as const
