import type { FastifyReply, FastifyRequest } from 'fastify'
import { requestedRange, type ByteRange, checkPreconditions,
  isNotModified } from '../../../http/conditional-requests.ts'
import { IMMUTABLE, PDF_POLICY } from '../../../http/common-headers.ts'
import type { FileInfo, OpenFile } from '../storage/file-store.ts'
import type { Presentation } from '../storage/storage-key.ts'

/** How a file is sent. */
export interface Description extends Pick<Presentation, 'contentType'> {
  readonly disposition: string
  /** The header by which a CDN finds it. */
  readonly tag: Readonly<Record<string, string>>
}

/** Answers a GET. If this throws, the caller must close the file. */
export async function sendFile (
  request: FastifyRequest,
  reply: FastifyReply,
  file: OpenFile,
  description: Description
): Promise<FastifyReply> {
  checkPreconditions(request, file)
  if (isNotModified(request.headers, file)) {
    await file.close()
    return await setValidators(reply, file, description).code(304).send()
  }
  const range = requestedRange(request.headers, file)
  if (range === 'not satisfiable') {
    reply.header('content-range', `bytes */${file.byteSize}`)
    throw Object.assign(new Error('Range not satisfiable'), { statusCode: 416 })
  }
  describeContent(reply, file, description, range)
  const stream = range === 'whole' ? await file.read() : await file.read(range.first, range.last)
  stream.on(
    'error',
    (error) => request.log.error({ err: error }, 'reading an uploaded file failed')
  )
  return await reply.send(stream)
}

/** Answers a HEAD. Its Range is ignored (RFC 9110, 14.2). */
export async function sendHead (
  request: FastifyRequest,
  reply: FastifyReply,
  file: FileInfo,
  description: Description
): Promise<FastifyReply> {
  checkPreconditions(request, file)
  if (isNotModified(request.headers, file)) {
    return await setValidators(reply, file, description).code(304).send()
  }
  describeContent(reply, file, description, 'whole')
  return await reply.send('')
}

/** Sets the headers that 200, 206 and 304 have in common. */
function setValidators (reply: FastifyReply, file: FileInfo, { tag }: Description): FastifyReply {
  const now = Date.now()
  return reply.headers({
    ...tag,
    'accept-ranges': 'bytes',
    'cache-control': IMMUTABLE,
    etag: file.etag,
    // Some storages round times up, but Last-Modified must not be later than Date (RFC 9110, 8.8.2.1), and
    // Node's own Date is late when the process is busy.
    date: new Date(now).toUTCString(),
    'last-modified': new Date(Math.min(file.modifiedAt.getTime(), now)).toUTCString()
  })
}

function describeContent (
  reply: FastifyReply,
  file: FileInfo,
  description: Description,
  range: ByteRange | 'whole'
): void {
  const { contentType, disposition } = description
  setValidators(reply, file, description).headers({
    'content-type': contentType,
    'content-disposition': disposition,
    'content-length': range === 'whole' ? file.byteSize : range.last - range.first + 1
  })
  // The name of a download could not be read. Caches must not keep the response for a year.
  if (disposition === 'attachment') reply.header('cache-control', 'no-cache')
  if (range !== 'whole') {
    reply.code(206).header('content-range', `bytes ${range.first}-${range.last}/${file.byteSize}`)
  }
  if (contentType === 'application/pdf') reply.header('content-security-policy', PDF_POLICY)
}
