import { isUtf8 } from 'node:buffer'
import { JsonReader, JsonSyntaxError, type TokenType } from '#json-text'
import { errorCodes, type FastifyError, type FastifyInstance, type FastifyRequest,
  type RequestPayload } from 'fastify'
import fp from 'fastify-plugin'
import { EncodedBodyError, MalformedJsonError, RequestTimeoutError, TooLargeError,
  UnsupportedMediaTypeError } from '../errors.ts'
import { yieldToEventLoop } from '../infra/system/event-loop.ts'

const BYTE_ORDER_MARK = Buffer.from('\uFEFF')
/** Size of the first buffer, unless the announced length is smaller or the first chunk is larger. */
const SMALLEST_BUFFER = 4096
/** Characters read in one turn of the event loop, in about a millisecond at most. */
const SLICE_LENGTH = 32 * 1024
const VISITED_DEPTH = 3
/** The longest pause of a body, such as that of a phone that changes its cell. */
const MAX_PAUSE_MS = 10_000

/** Whether a request has a Content-Encoding. No route accepts one. */
export const isEncoded = ({ headers }: FastifyRequest): boolean =>
  (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'

/** Whether a request says that its body is JSON. Such bodies are held in memory, all others are streamed. */
export const isJson = ({ headers }: FastifyRequest): boolean =>
  /^application\/(?:[\w.-]+\+)?json/i.test(headers['content-type'] ?? '')

/**
 * Adds a hook that removes the Content-Type of a request without a body. Some clients, such as
 * `curl -X DELETE -d ''`, send one, and Fastify would answer 415.
 *
 * @param methods those that need no body
 */
export function allowTypeWithoutBody (scope: FastifyInstance, methods: readonly string[] = ['DELETE']): void {
  scope.addHook('onRequest', ({ method, headers }, _reply, done) => {
    if (
      methods.includes(method) && headers['transfer-encoding'] === undefined &&
      Number(headers['content-length'] ?? 0) === 0
    ) delete headers['content-type']
    done()
  })
}

/**
 * Reads a JSON body into one buffer, without a byte order mark. Chunks are copied as they arrive, because a
 * small chunk keeps a hundred times its size in memory.
 *
 * @returns undefined for an empty body
 * @throws 400 if the body is cut off or not UTF-8, 408, 413, 415, 503
 */
export async function readJsonBytes (
  request: FastifyRequest,
  payload: RequestPayload
): Promise<Buffer | undefined> {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
  if (isEncoded(request)) throw new EncodedBodyError()
  if (charset !== undefined && !/^(utf-?8|us-ascii)$/i.test(charset)) {
    throw new UnsupportedMediaTypeError('JSON must be encoded in UTF-8')
  }
  const bytes = await readBytes(request, payload)
  if (bytes.length === 0) return undefined
  if (!isUtf8(bytes)) throw new MalformedJsonError('not UTF-8')
  return bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? bytes.subarray(3) : bytes
}

async function readBytes (request: FastifyRequest, payload: RequestPayload): Promise<Buffer> {
  const { bodyLimit } = request.routeOptions
  const announced = request.headers['content-length']
  const length = announced === undefined ? undefined : Number(announced)
  const tooLarge = () => new TooLargeError('Request body', bodyLimit)
  if (length !== undefined && length > bodyLimit) throw tooLarge()
  // If the client disconnected during authentication, neither 'end' nor 'error' would follow.
  if (payload.destroyed) throw new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH()
  // The announced size is neither allocated nor counted, because nothing of it may ever arrive.
  let bytes = Buffer.alloc(0)
  let received = 0
  await new Promise<void>((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      const end = received + chunk.length
      if (end > bodyLimit) return settle(tooLarge())
      pause.refresh()
      if (end > bytes.length) {
        const size = Math.max(end, Math.min(length ?? bodyLimit, Math.max(2 * bytes.length, SMALLEST_BUFFER)))
        try {
          request.resizeBody?.(size)
        } catch (error) { // a 503 if there is no room
          return settle(error as Error)
        }
        bytes = Buffer.concat([bytes.subarray(0, received)], size)
      }
      chunk.copy(bytes, received)
      received = end
    }
    const onEnd = () =>
      settle(length === undefined || received === length ? undefined
        : new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH())
    const onError = (error: FastifyError) =>
      settle(Object.assign(error, { statusCode: error.statusCode ?? 400 }))
    const onLate = () => settle(new RequestTimeoutError())
    const pause = setTimeout(onLate, MAX_PAUSE_MS)
    const limit = setTimeout(onLate, request.server.config.BODY_TIMEOUT_MS)
    function settle (error?: Error): void {
      clearTimeout(pause)
      clearTimeout(limit)
      payload.off('data', onData).off('end', onEnd).off('error', onError)
      if (error === undefined) resolve()
      else reject(error)
    }
    payload.on('data', onData).on('end', onEnd).on('error', onError)
    payload.resume()
  })
  return bytes.subarray(0, received)
}

/**
 * Checks JSON text, one slice in each turn of the event loop.
 *
 * @param visit is called for each token with at most VISITED_DEPTH open objects and arrays
 * @returns the nested objects and arrays: 1 for a flat object
 * @throws {MalformedJsonError} 400, with line and column
 */
export async function scanJson (
  text: string,
  visit?: (type: TokenType, reader: JsonReader) => void
): Promise<number> {
  const reader = new JsonReader(text)
  let pausedAt = 0
  try {
    for (let type = reader.next(); type !== 'end'; type = reader.next()) {
      if (reader.depth <= VISITED_DEPTH) visit?.(type, reader)
      if (reader.end - pausedAt < SLICE_LENGTH) continue
      pausedAt = reader.end
      await yieldToEventLoop()
    }
  } catch (error) {
    throw error instanceof JsonSyntaxError ? new MalformedJsonError(error.message) : error
  }
  return reader.deepest
}

/**
 * The parser of JSON bodies, except for those with documents. A body may have a key `__proto__`: JSON.parse
 * makes it an ordinary key, and the service never merges objects. An empty body becomes `undefined`, which
 * the schemas refuse.
 */
export default fp(async (app) => {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: RequestPayload) => {
    const bytes = await readJsonBytes(request, payload)
    if (bytes === undefined) return undefined
    const text = bytes.toString('utf8')
    try {
      return JSON.parse(text)
    } catch (error) {
      await scanJson(text) // throws the error that names the place
      throw error
    }
  })
}, { name: 'json-body' })
