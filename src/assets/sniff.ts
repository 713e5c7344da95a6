import { fileTypeFromBuffer, supportedMimeTypes } from 'file-type'
import { isInlineType } from './storage-key.ts'

/** Bytes from the start of a file that its type is judged on. */
export const SNIFF_BYTES = 256 * 1024
/** Where the root element of an SVG is looked for. */
const SVG_PROLOG_BYTES = 16 * 1024

const OCTET_STREAM = 'application/octet-stream'
const SVG = 'image/svg+xml'
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/
const MEDIA = /^(image|audio|video|font)\/|^application\/pdf$/

/** Media types that show in the bytes: who claims one that the bytes don't show is mistaken, or lies. */
const RECOGNISED: ReadonlySet<string> = new Set([SVG, ...[...supportedMimeTypes].map(essence).filter((type) => MEDIA.test(type))])

export interface ContentType {
  /** Lower-case type/subtype without parameters. */
  readonly type: string
  /** Whether the bytes say so, or only the client. */
  readonly sniffed: boolean
}

/**
 * The type of a file, from its first bytes; the client's word counts only where they say nothing.
 *
 * @param head the first `SNIFF_BYTES` of the file, or all of it
 * @param claimed the Content-Type that the client gave the part
 */
export async function contentTypeOf (head: Uint8Array, claimed: string | undefined): Promise<ContentType> {
  const sniffed = await sniff(head)
  if (sniffed !== undefined) return { type: sniffed, sniffed: true }
  const claim = essence(claimed ?? '')
  return { type: isCredible(claim, head) ? claim : OCTET_STREAM, sniffed: false }
}

/**
 * Whether a file may be uploaded.
 *
 * @param allowed types such as `image/png` or `image/*`, in lower case; any type when empty. A wildcard wants a type that
 * the bytes show; a type that can't be seen in bytes (`text/csv`) has to be listed by its name.
 */
export function isAllowed ({ type, sniffed }: ContentType, allowed: readonly string[]): boolean {
  if (allowed.length === 0 || allowed.includes(type)) return true
  return sniffed && allowed.includes(`${type.slice(0, type.indexOf('/'))}/*`)
}

async function sniff (head: Uint8Array): Promise<string | undefined> {
  const found = await fileTypeFromBuffer(head).catch(() => undefined) // a file that it stumbles over has no type
  const type = found === undefined ? undefined : essence(found.mime)
  // The mark of UTF-16 also reads as the start of an MPEG frame, of a layer that nobody uses.
  if (type === 'audio/mpeg' && hasUtf16Mark(head)) return undefined
  if (type !== undefined && type !== 'application/xml') return type
  if (isSvg(head)) return SVG
  // Most TIFFs have their directory, which tells them from raw formats, at their end.
  return type ?? (isTiff(head) ? 'image/tiff' : undefined)
}

function essence (type: string): string {
  const end = type.indexOf(';')
  return (end === -1 ? type : type.slice(0, end)).trim().toLowerCase()
}

function isCredible (claim: string, head: Uint8Array): boolean {
  if (!MEDIA_TYPE.test(claim) || RECOGNISED.has(claim) || isInlineType(claim)) return false
  // It is also what a part without a Content-Type counts as, which is no word about binary data.
  return claim !== 'text/plain' || !head.subarray(0, 4096).includes(0) || hasUtf16Mark(head)
}

const hasUtf16Mark = ([first, second]: Uint8Array): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)

const isTiff = (head: Uint8Array): boolean => /^(49492a00|4d4d002a)$/.test(Buffer.from(head.subarray(0, 4)).toString('hex'))

/** Whether the root element is `svg`, behind whatever may precede it in XML. Each step moves on, so it ends. */
function isSvg (head: Uint8Array): boolean {
  const text = Buffer.from(head.buffer, head.byteOffset, Math.min(head.byteLength, SVG_PROLOG_BYTES)).toString('utf8')
  let at = text.startsWith('\ufeff') ? 1 : 0
  while (at < text.length) {
    while (/\s/.test(text[at] ?? '')) at++
    if (/^<(?:[a-z]\w{0,15}:)?svg[\s/>]/i.test(text.slice(at, at + 24))) return true
    const close = closingOf(text, at)
    if (close === undefined) return false
    const end = text.indexOf(close, at)
    if (end === -1) return false
    at = end + close.length
  }
  return false
}

function closingOf (text: string, at: number): string | undefined {
  if (text.startsWith('<?', at)) return '?>'
  if (text.startsWith('<!--', at)) return '-->'
  if (!/^<!doctype/i.test(text.slice(at, at + 9))) return undefined
  const subset = text.indexOf('[', at)
  return subset !== -1 && subset < text.indexOf('>', at) ? ']>' : '>'
}
