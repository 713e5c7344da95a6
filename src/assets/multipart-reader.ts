import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import type { FastifyRequest } from 'fastify'
import type { MultipartFile } from '@fastify/multipart'
import { InvalidError, MalformedMultipartError, RequestTimeoutError, TooLargeError } from '../errors.ts'

export const FILE_FIELD = 'asset[file]'
/** What boundaries, part headers and fields that are ignored may take beside the file. */
const OVERHEAD_BYTES = 1024 * 1024
/** A client that sends nothing for so long has gone, whatever its connection looks like. */
const IDLE_MS = 30_000

const MAX_PARTS = 100

const BLANK = `File can't be blank (it belongs in the form field ${FILE_FIELD})`
const NOT_A_FILE = `File must be a file, and ${FILE_FIELD} is a text field`
const NOT_ALONE = 'File must be the only file in the form'
const TOO_MANY_PARTS = `Form has too many fields (maximum is ${MAX_PARTS})`

/** For @fastify/multipart: what busboy may keep in memory, and that a file over its limit is our business. */
export const multipartOptions = (maxUploadBytes: number) => ({
  throwFileSizeLimit: false,
  limits: {
    fileSize: maxUploadBytes,
    files: 2, // the second one is noticed, not stored
    fields: MAX_PARTS,
    parts: MAX_PARTS,
    fieldNameSize: 1024,
    fieldSize: 1024, // fields are ignored, so it doesn't matter that longer ones are cut
    headerPairs: 100,
    headerSize: 16 * 1024
  }
})

export interface ReceivedFile<T> {
  readonly stored: T
  /** As the client wrote it. */
  readonly filename: string | undefined
}

/** @param claimedType the Content-Type of its part, lower-case without parameters */
type Store<T> = (stream: AsyncIterable<Uint8Array>, claimedType: string) => Promise<T>

interface Discardable {
  readonly byteSize: number
  discard (): Promise<void>
}

/**
 * Reads a whole form that must hold one file, in `asset[file]`. Whatever fails, `discard` has been called on what was
 * stored; the body may then not have been read to its end.
 *
 * @param maxBytes of the file
 * @param store takes the stream of the file and the type that it claims to be; its errors come out unchanged
 * @param idleMs longest wait for the next byte
 * @throws {TooLargeError} 413
 * @throws {InvalidError} 422: no file, an empty one, a text field in its place, another file
 * @throws {MalformedMultipartError} 400, also when the client has gone
 * @throws {RequestTimeoutError} 408
 */
export async function receiveFile<T extends Discardable> (
  request: FastifyRequest, maxBytes: number, store: Store<T>, idleMs = IDLE_MS
): Promise<ReceivedFile<T>> {
  const tooLarge = () => new TooLargeError('File', maxBytes)
  if (Number(request.headers['content-length'] ?? 0) > maxBytes + OVERHEAD_BYTES) throw tooLarge()

  // Whoever hung up while the token was checked: the parser would wait for a 'close' that has been.
  if (request.raw.destroyed) throw new MalformedMultipartError()

  const body = watchBody(request.raw, maxBytes + OVERHEAD_BYTES, idleMs, tooLarge)
  const heads = watchHeads()
  const parts = request.parts({ isPartAFile: heads.isPartAFile })
  let received: ReceivedFile<T> | undefined
  try {
    for (;;) {
      const part = await Promise.race([nextPart(parts), body.failure])
      if (part === undefined) break
      if (part.type === 'field') {
        if (part.fieldname === FILE_FIELD) throw new InvalidError([NOT_A_FILE])
        continue
      }
      if (received !== undefined) throw new InvalidError([NOT_ALONE])
      if (part.fieldname !== FILE_FIELD) throw new InvalidError([BLANK])
      const stored = await storePart(part, store, body.failure, tooLarge)
      received = { stored, filename: part.filename }
    }
    // What follows the closing boundary is no part of the form, but the connection is free only behind it.
    request.raw.resume()
    if (!request.raw.readableEnded) await Promise.race([rest(request.raw), body.failure])
    heads.check()
    if (received === undefined || received.stored.byteSize === 0) throw new InvalidError([BLANK])
    return received
  } catch (error) {
    await received?.stored.discard()
    throw error
  } finally {
    body.unwatch()
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
    // Raised at the end of a form that is whole, because of the name or the JSON of a field that doesn't matter here.
    if (code === 'FST_PROTO_VIOLATION' || code === 'FST_INVALID_JSON_FIELD_ERROR') return undefined
    throw new MalformedMultipartError({ cause: error })
  }
}

async function storePart<T extends Discardable> (
  { file, mimetype }: MultipartFile, store: Store<T>, failure: Promise<never>, tooLarge: () => Error
): Promise<T> {
  // A small file has been parsed whole, with all that is wrong with it, before anybody could listen.
  const refuse = () => file.destroy(tooLarge())
  if (file.truncated) refuse()
  else file.once('limit', refuse)
  failure.catch((error: Error) => file.destroy(error))
  let stored: T
  try {
    stored = await store(file, mimetype)
  } catch (error) {
    if (error instanceof TooLargeError || !isFailureOf(file, error)) throw error
    throw new MalformedMultipartError({ cause: error })
  }
  if (!file.truncated) return stored
  await stored.discard()
  throw tooLarge()
}

/** Whether the stream failed, and not what was done with its bytes. */
const isFailureOf = (file: MultipartFile['file'], error: unknown): boolean =>
  error === file.errored || (error as { code?: string }).code === 'ERR_STREAM_PREMATURE_CLOSE' || String(error).includes('terminated early')

const rest = async (raw: IncomingMessage): Promise<void> =>
  await finished(raw, { writable: false }).catch((error: unknown) => { throw new MalformedMultipartError({ cause: error }) })

/**
 * Notes what there is in a form beside the parts that are handed over: @fastify/multipart keeps back those whose name is
 * one of Object.prototype's, and fields that say they are JSON and are not.
 */
function watchHeads () {
  let files = 0
  let isText = false
  return {
    /** For busboy, which asks this about each part. What is a file is what it takes for one by itself. */
    isPartAFile (name: string | undefined, type: string | undefined, filename: string | undefined): boolean {
      const isFile = type === 'application/octet-stream' || filename !== undefined
      if (isFile) files++
      else if (name === FILE_FIELD) isText = true
      return isFile
    },
    /** @throws {InvalidError} when the form, which has been read to its end, holds what it must not */
    check () {
      if (isText) throw new InvalidError([NOT_A_FILE])
      if (files > 1) throw new InvalidError([NOT_ALONE])
    }
  }
}

/** Ends what the parser alone would let go on for ever: bodies without an end, and clients without a pulse. */
function watchBody (raw: IncomingMessage, maxBytes: number, idleMs: number, tooLarge: () => Error) {
  let bytes = 0
  let fail!: (error: Error) => void
  const failure = new Promise<never>((_resolve, reject) => { fail = reject })
  failure.catch(() => {}) // whoever waits for it hears of it
  const gone = () => { if (!raw.readableEnded) fail(new MalformedMultipartError()) }
  const idle = setTimeout(() => fail(new RequestTimeoutError()), idleMs)
  const count = (chunk: Uint8Array) => {
    bytes += chunk.byteLength
    idle.refresh()
    if (bytes > maxBytes) fail(tooLarge())
  }
  // The parser is piped to the request in this same turn, so that no chunk passes it by.
  raw.on('data', count).on('close', gone)
  return {
    failure,
    unwatch () {
      clearTimeout(idle)
      raw.off('data', count).off('close', gone)
    }
  }
}
