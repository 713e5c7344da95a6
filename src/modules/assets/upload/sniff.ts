import { fileTypeFromBuffer, supportedMimeTypes } from 'file-type'
import { isInlineType } from '../storage/storage-key.ts'

/** The root element of an SVG must begin within this many bytes. */
const SVG_PROLOG_BYTES = 16 * 1024

const OCTET_STREAM = 'application/octet-stream'
const SVG = 'image/svg+xml'
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/
const MEDIA = /^(image|audio|video|font)\/|^application\/pdf$/

/** Media types that are always detected. A claim of such a type without detection is wrong. */
const DETECTABLE: ReadonlySet<string> = new Set([
  SVG,
  ...[...supportedMimeTypes].map(essence).filter((type) => MEDIA.test(type))
])

export interface ContentType {
  /** Lower-case type/subtype without parameters. */
  readonly name: string
  /** Whether it was detected from the bytes, or only claimed by the client. */
  readonly sniffed: boolean
}

/**
 * Detects the type of a file. The claimed type counts only if nothing is detected.
 *
 * @param head the first SNIFF_BYTES of the file, or all of a smaller file
 * @param claimed the Content-Type that the client sent with the part
 */
export async function contentTypeOf (head: Uint8Array, claimed: string | undefined): Promise<ContentType> {
  const sniffed = await sniff(head)
  if (sniffed !== undefined) return { name: sniffed, sniffed: true }
  const claim = essence(claimed ?? '')
  return { name: isCredible(claim, head) ? claim : OCTET_STREAM, sniffed: false }
}

/**
 * Tells whether files of a type may be uploaded.
 *
 * @param allowed types such as `image/png` or `image/*`, in lower case; empty allows all. A wildcard matches
 *   only detected types; a type that can't be detected, such as `text/csv`, must be listed by its name
 */
export function isAllowed ({ name, sniffed }: ContentType, allowed: readonly string[]): boolean {
  if (allowed.length === 0 || allowed.includes(name)) return true
  return sniffed && allowed.includes(`${name.slice(0, name.indexOf('/'))}/*`)
}

async function sniff (head: Uint8Array): Promise<string | undefined> {
  // file-type throws for some malformed files.
  const found = await fileTypeFromBuffer(head).catch(() => undefined)
  const type = found === undefined ? undefined : essence(found.mime)
  // The byte order mark of UTF-16 looks like an MPEG frame.
  if (type === 'audio/mpeg' && hasUtf16ByteOrderMark(head)) return undefined
  if (type !== undefined && type !== 'application/xml') return type
  if (isSvg(head)) return SVG
  // A TIFF's directory is usually at the end of the file, so file-type can't tell TIFF from raw formats.
  return type ?? (isTiff(head) ? 'image/tiff' : undefined)
}

function essence (type: string): string {
  const end = type.indexOf(';')
  return (end === -1 ? type : type.slice(0, end)).trim().toLowerCase()
}

function isCredible (claim: string, head: Uint8Array): boolean {
  if (!MEDIA_TYPE.test(claim) || DETECTABLE.has(claim) || isInlineType(claim)) return false
  // A part without a Content-Type counts as text/plain, which binary data isn't.
  return claim !== 'text/plain' || !head.subarray(0, 4096).includes(0) || hasUtf16ByteOrderMark(head)
}

const hasUtf16ByteOrderMark = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)

const isTiff = (head: Uint8Array): boolean =>
  /^(49492a00|4d4d002a)$/.test(Buffer.from(head.subarray(0, 4)).toString('hex'))

/** A declaration, a comment or a document type before the root element, with the white space around it. */
const PROLOG = /\s*(?:<\?.*?\?>|<!--.*?-->|<!doctype[^[>]*(?:\[.*?\]>|>))/isy
const SVG_ROOT = /\s*<(?:[a-z]\w{0,15}:)?svg[\s/>]/iy

/** Tells whether the root element is `svg`. */
function isSvg (head: Uint8Array): boolean {
  // The decoder drops a byte order mark.
  const text = new TextDecoder().decode(head.subarray(0, SVG_PROLOG_BYTES))
  SVG_ROOT.lastIndex = 0
  // One at a time: a repeated group would try all ways to divide a hostile text, which takes very long.
  for (PROLOG.lastIndex = 0; PROLOG.test(text);) SVG_ROOT.lastIndex = PROLOG.lastIndex
  return SVG_ROOT.test(text)
}
