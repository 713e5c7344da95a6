import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import type { FastifyRequest } from 'fastify'
import type { MultipartFile } from '@fastify/multipart'
import { InvalidError, MalformedMultipartError, RequestTimeoutError, ResponseError,
  TooLargeError } from '../../../errors.ts'
import type { StagedFile } from '../storage/file-store.ts'

export const FILE_FIELD = 'asset[file]'
/** Bytes allowed in addition to the file, for boundaries, part headers and ignored fields. */
const OVERHEAD_BYTES = 1024 * 1024
const IDLE_MS = 30_000
const MAX_PARTS = 100

const BLANK = `File can't be blank (it belongs in the form field ${FILE_FIELD})`
const EMPTY = 'File is empty: choose a file that has content'
const NOT_A_FILE = `File must be a file, but ${FILE_FIELD} is a text field`
const NOT_ALONE = 'File must be the only file in the form'
const TOO_MANY_PARTS = `Form has too many fields (maximum is ${MAX_PARTS})`
const malformed = (cause: unknown) => Object.assign(new MalformedMultipartError(), { cause })

/** Options of @fastify/multipart. Of files that are too large, `receiveFile` tells, not the plugin. */
export const multipartOptions = (maxUploadBytes: number) => ({
  throwFileSizeLimit: false,
  limits: {
    fileSize: maxUploadBytes,
    files: 2, // one more than allowed, so that `receiveFile` gets the second one and refuses it at once
    fields: MAX_PARTS,
    parts: MAX_PARTS,
    fieldNameSize: 1024,
    fieldSize: 1024, // fields are ignored, so longer ones may be cut
    headerPairs: 100,
    headerSize: 16 * 1024
  }
})

/**
 * @param claimedType the Content-Type of the part, in lower case without parameters
 * @param filename as the client sent it
 */
type Store<T> = (
  stream: AsyncIterable<Uint8Array>,
  claimedType: string,
  filename: string | undefined
) => Promise<T>

type Discardable = Pick<StagedFile, 'byteSize' | 'discard'>

/**
 * Reads a form with one file in the field `asset[file]`. After an error the stored file has been discarded,
 * and the body may not have been read to its end.
 *
 * @param maxBytes size limit of the file
 * @param store stores the file; its errors are thrown unchanged
 * @param idleMs longest wait for the next byte
 * @throws {TooLargeError} 413
 * @throws {InvalidError} 422: no file, an empty file, a text field instead, or a second file
 * @throws {MalformedMultipartError} 400, also when the client disconnects
 * @throws {RequestTimeoutError} 408
 */
export async function receiveFile<T extends Discardable> (
  request: FastifyRequest,
  maxBytes: number,
  store: Store<T>,
  idleMs = IDLE_MS
): Promise<T> {
  const tooLarge = () => new TooLargeError('File', maxBytes)
  if (Number(request.headers['content-length'] ?? 0) > maxBytes + OVERHEAD_BYTES) throw tooLarge()
  // If the client disconnected during authentication, the parser would wait forever for 'close'.
  if (request.raw.destroyed) throw new MalformedMultipartError()

  const body = limitBody(request.raw, maxBytes + OVERHEAD_BYTES, idleMs, tooLarge)
  const heads = inspectHeads()
  const parts = request.parts({ isPartAFile: heads.isPartAFile })
  let stored: T | undefined
  try {
    for (;;) {
      const part = await Promise.race([nextPart(parts), body.failure])
      if (part === undefined) break
      if (part.type === 'field') {
        if (part.fieldname === FILE_FIELD) throw new InvalidError([NOT_A_FILE])
        continue
      }
      if (stored !== undefined) throw new InvalidError([NOT_ALONE])
      if (part.fieldname !== FILE_FIELD) throw new InvalidError([BLANK])
      stored = await storePart(part, store, body.failure, tooLarge)
    }
    // The connection can be reused only after everything after the closing boundary has been read.
    request.raw.resume()
    if (!request.raw.readableEnded) await Promise.race([readToEnd(request.raw), body.failure])
    heads.check()
    if (stored === undefined) throw new InvalidError([BLANK])
    if (stored.byteSize === 0) throw new InvalidError([EMPTY])
    return stored
  } catch (error) {
    await stored?.discard()
    throw error
  } finally {
    body.release()
  }
}

type Parts = ReturnType<FastifyRequest['parts']>
type Part = Awaited<ReturnType<Parts['next']>>['value']

async function nextPart (parts: Parts): Promise<Part | undefined> {
  try {
    const { done, value } = await parts.next()
    return done === true ? undefined : value
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === 'FST_PARTS_LIMIT' || code === 'FST_FIELDS_LIMIT') throw new InvalidError([TOO_MANY_PARTS])
    if (code === 'FST_FILES_LIMIT') throw new InvalidError([NOT_ALONE])
    // @fastify/multipart reports a field with a reserved name or malformed JSON at the end of the form.
    // Fields are ignored, so this is a normal end.
    if (code === 'FST_PROTO_VIOLATION' || code === 'FST_INVALID_JSON_FIELD_ERROR') return undefined
    throw malformed(error)
  }
}

async function storePart<T extends Discardable> (
  { file, mimetype, filename }: MultipartFile,
  store: Store<T>,
  failure: Promise<never>,
  tooLarge: () => Error
): Promise<T> {
  // If the file arrived in one piece, it may have exceeded its limit before this listener is added.
  const refuse = () => file.destroy(tooLarge())
  if (file.truncated) refuse()
  else file.once('limit', refuse)
  failure.catch((error: Error) => file.destroy(error))
  let stored: T
  try {
    stored = await store(file, mimetype, filename)
  } catch (error) {
    if (error instanceof ResponseError || !isFailureOf(file, error)) throw error
    throw malformed(error)
  }
  if (!file.truncated) return stored
  await stored.discard()
  throw tooLarge()
}

/** Tells whether the stream of the file failed, as opposed to the storage. */
const isFailureOf = (file: MultipartFile['file'], error: unknown): boolean =>
  error === file.errored || (error as { code?: string }).code === 'ERR_STREAM_PREMATURE_CLOSE' ||
  String(error).includes('terminated early')

const readToEnd = async (raw: IncomingMessage): Promise<void> =>
  await finished(raw, { writable: false }).catch((error: unknown) => {
    throw malformed(error)
  })

/**
 * Counts the files of a form, and notes whether the file's field is text. This can't be left to
 * @fastify/multipart: it skips fields with malformed JSON, and parts with names such as `constructor`.
 */
function inspectHeads () {
  let files = 0
  let isText = false
  return {
    /** Called by busboy for each part. Returns busboy's default decision. */
    isPartAFile (name: string | undefined, type: string | undefined, filename: string | undefined): boolean {
      const isFile = type === 'application/octet-stream' || filename !== undefined
      if (isFile) files++
      else if (name === FILE_FIELD) isText = true
      return isFile
    },
    /** Checks the number and kind of the parts. Call it at the end of the form. @throws {InvalidError} */
    check () {
      if (isText) throw new InvalidError([NOT_A_FILE])
      if (files > 1) throw new InvalidError([NOT_ALONE])
    }
  }
}

/** Limits the size of the whole body and the time without a byte, because the parser doesn't. */
function limitBody (raw: IncomingMessage, maxBytes: number, idleMs: number, tooLarge: () => Error) {
  let bytes = 0
  let fail!: (error: Error) => void
  const failure = new Promise<never>((_resolve, reject) => {
    fail = reject
  })
  failure.catch(() => {}) // it may reject before it is awaited
  const gone = () => {
    if (!raw.readableEnded) fail(new MalformedMultipartError())
  }
  const idle = setTimeout(() => fail(new RequestTimeoutError()), idleMs)
  const count = (chunk: Uint8Array) => {
    bytes += chunk.byteLength
    idle.refresh()
    if (bytes > maxBytes) fail(tooLarge())
  }
  // The parser attaches to the request in the same tick, so that it misses no chunk.
  raw.on('data', count).on('close', gone)
  return {
    failure,
    release () {
      clearTimeout(idle)
      raw.off('data', count).off('close', gone)
    }
  }
}
