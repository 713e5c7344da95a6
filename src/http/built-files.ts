import { existsSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { checkPreconditions, contentHash, isNotModified } from './conditional-requests.ts'
import { ENCODINGS, entityTag, preferredEncoding } from './content-encoding.ts'
import { sendWithoutBody } from './responses.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.tgz': 'application/gzip'
}

/** A file that is kept in memory. */
export interface BuiltFile {
  readonly type: string
  /** The hash of the uncompressed bytes. */
  readonly hash: string
  readonly bytes: Buffer
  /** The compressed bytes, as far as there are any. */
  readonly br?: Buffer | undefined
  readonly gzip?: Buffer
}

/** Reads a file that the build has made, and its compressed bytes if it has made them. */
export function readBuiltFile (path: string): BuiltFile {
  const bytes = readFileSync(path)
  return {
    type: TYPES[extname(path)] ?? 'application/octet-stream',
    hash: contentHash(bytes),
    bytes,
    br: existsSync(`${path}.br`) ? readFileSync(`${path}.br`) : undefined
  }
}

/** Sends a file, or a 304 if the client has it. @throws {PreconditionFailedError} */
export function sendBuiltFile (
  request: FastifyRequest,
  reply: FastifyReply,
  { type, hash, bytes, br, gzip }: BuiltFile
): FastifyReply {
  const compressed = { br, gzip, identity: undefined }
  const preferred = preferredEncoding(request.headers['accept-encoding'])
  const encoding = compressed[preferred] === undefined ? 'identity' : preferred
  const otherTags = ENCODINGS.filter((other) => other !== encoding).map((other) => entityTag(hash, other))
  const validators = { etag: entityTag(hash, encoding), otherTags }
  checkPreconditions(request, validators)
  reply.headers({ etag: validators.etag, vary: 'Accept-Encoding' })
  if (isNotModified(request.headers, validators)) return sendWithoutBody(reply.code(304))
  if (encoding !== 'identity') reply.header('content-encoding', encoding)
  return reply.type(type).send(compressed[encoding] ?? bytes)
}
