const FALLBACK = 'file'
/** What file systems take, so that a download can have the name. */
const MAX_BYTES = 255
/** A longer "extension" is no extension, only text after a full stop. */
const MAX_EXTENSION_BYTES = 32

/** Controls with NUL, formatting (bidi overrides, zero width, BOM), unpaired surrogates, line and paragraph separators. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/**
 * The name of an uploaded file as it is recorded and shown: the base name in NFC without anything invisible,
 * at most 255 bytes of UTF-8, the extension kept. It never becomes part of a path.
 *
 * @param given what the client sent, with a path of whatever system or undefined
 * @returns never empty, `.` or `..`
 */
export function cleanFilename (given: string | undefined): string {
  // Only the end can matter, and normalising is not free.
  const visible = (given ?? '').slice(-16 * 1024).replace(INVISIBLE, '')
  const name = visible.slice(Math.max(visible.lastIndexOf('/'), visible.lastIndexOf('\\')) + 1).normalize('NFC').trim()
  if (/^\.*$/.test(name)) return FALLBACK
  if (Buffer.byteLength(name) <= MAX_BYTES) return name

  const dot = name.lastIndexOf('.')
  const extension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= MAX_EXTENSION_BYTES ? name.slice(dot) : ''
  return truncate(name.slice(0, name.length - extension.length), MAX_BYTES - Buffer.byteLength(extension)).trimEnd() + extension
}

function truncate (text: string, maxBytes: number): string {
  let bytes = 0
  let end = 0
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > maxBytes) break
    end += character.length
  }
  return text.slice(0, end)
}
