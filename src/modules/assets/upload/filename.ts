const FALLBACK = 'file'
/** The limit of most file systems. */
const MAX_BYTES = 255
/** Longer text after the last dot is not treated as an extension. */
const MAX_EXTENSION_BYTES = 32

/** What browsers write for a quote and a line break in a filename. They leave a percent sign as it is. */
const BROWSER_ESCAPES: Readonly<Record<string, string>> = { '%22': '"', '%0D': '\r', '%0A': '\n' }

/** Control and format characters (bidi overrides, zero width), lone surrogates, line separators. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/**
 * Returns the filename to record for an upload: the base name in NFC, without invisible characters, cut to
 * 255 bytes of UTF-8 before its extension. It is never empty, `.` or `..`, and never used as part of a path.
 *
 * @param given the filename or path that the client sent
 */
export function cleanFilename (given: string | undefined): string {
  // Limits the cost of normalising a huge name.
  const visible = (given ?? '').slice(-16 * 1024)
    .replace(/%(22|0D|0A)/g, (escape) => BROWSER_ESCAPES[escape] ?? '')
    .replace(INVISIBLE, '')
  const name = visible.slice(Math.max(visible.lastIndexOf('/'), visible.lastIndexOf('\\')) + 1)
    .normalize('NFC').trim()
  if (/^\.*$/.test(name)) return FALLBACK
  if (Buffer.byteLength(name) <= MAX_BYTES) return name

  const dot = name.lastIndexOf('.')
  const extension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= MAX_EXTENSION_BYTES ? name.slice(dot)
    : ''
  return truncate(name.slice(0, name.length - extension.length), MAX_BYTES - Buffer.byteLength(extension))
    .trimEnd() + extension
}

/** Cuts a text between two characters. The decoder leaves out an incomplete one, to wait for the rest. */
const truncate = (text: string, maxBytes: number): string =>
  new TextDecoder().decode(Buffer.from(text).subarray(0, maxBytes), { stream: true })
