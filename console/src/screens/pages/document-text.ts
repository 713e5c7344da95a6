import { byteLength } from '#json-text'
import { checkJson } from '../../json/check.ts'
import { readFile } from '../../components/read-file.ts'
import { formatBytes } from '../../components/format.tsx'

/** A document as the service has it. */
export interface SavedDocument {
  readonly text: string
  readonly etag: string
}

/** Why a text can't become a document. */
export class DocumentTextError extends Error {
  /** Where in the text, in UTF-16 units; undefined if it concerns all of it. */
  readonly offset: number | undefined

  constructor (message: string, offset?: number) {
    super(message)
    this.offset = offset
  }
}

/** @throws {DocumentTextError} unless the service takes the text as a document */
export function requireDocument (text: string, maxBytes: number): void {
  requireSize(byteLength(text), maxBytes)
  const error = checkJson(text)
  if (error === undefined) return
  throw new DocumentTextError(`Line ${error.line}, column ${error.column}: ${error.message}`, error.offset)
}

const BYTE_ORDER_MARK = '\uFEFF'
const BYTE_ORDER_MARK_BYTES = 3

/**
 * Returns the text of a file exactly, but without a byte order mark, which is not part of a document.
 *
 * @throws {DocumentTextError} if the file is too large, or isn't UTF-8
 * @throws {Error} if it can't be read
 */
export async function readDocumentFile (file: File, maxBytes: number): Promise<string> {
  requireSize(file.size, maxBytes + BYTE_ORDER_MARK_BYTES)
  const bytes = await readFile(file)
  const [first, second] = bytes
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) {
    throw new DocumentTextError('The file is in UTF-16. Save it as UTF-8, and choose it again.')
  }
  const text = decode(bytes)
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text
}

function decode (bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new DocumentTextError('The file is not text in UTF-8. Save it as UTF-8, and choose it again.')
  }
}

function requireSize (bytes: number, maxBytes: number): void {
  if (bytes <= maxBytes) return
  throw new DocumentTextError(`It has ${formatBytes(bytes)}, but a document can have at most ${
    formatBytes(maxBytes)
  }.`)
}
