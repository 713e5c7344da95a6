import { yieldToEventLoop } from '../../../infra/system/event-loop.ts'

// Finds what may be storage keys of assets in the text of a document: 22 letters and digits, mostly with an
// extension (docs/adr/0025-references-to-assets.md).

const STEM_LENGTH = 22
/** What follows the 22 characters: an extension, or the path of a variant. */
const SUFFIX = /\.([a-z0-9]{2,5})|\/w/y
const SHORTEST_EXTENSION = 2
/** The path of a variant doesn't have the extension of the original, which is one of these. */
const PICTURES = ['jpg', 'png', 'webp', 'gif', 'avif']

/** Characters that are searched in one turn of the event loop. */
const SLICE_LENGTH = 32 * 1024
/** Keys that are held in memory before those that don't exist are dropped. */
const MAX_KEYS = 5_000

/**
 * Returns what may be storage keys of assets in a document.
 *
 * @param keepExisting returns those of the keys that exist. Only documents with thousands need it.
 */
export async function findStorageKeys (
  document: string,
  keepExisting: (keys: string[]) => Promise<string[]>
): Promise<string[]> {
  const existing: string[] = []
  const keys = new Set<string>()
  let pausedAt = 0
  // `end` is where a word ends. The next one that is long enough reaches the 22nd character after it.
  for (let end = -1; end + STEM_LENGTH < document.length;) {
    const at = end + STEM_LENGTH
    if (isLetterOrDigit(document, at)) {
      let start = at
      while (start > end + 1 && isLetterOrDigit(document, start - 1)) start--
      end = at + 1
      while (isLetterOrDigit(document, end)) end++
      // More letters and digits are what a page has before a key, or the rest of an escape.
      if (end - start >= STEM_LENGTH) addKeys(document, end, keys)
    } else {
      end = at
    }
    if (keys.size > MAX_KEYS) {
      existing.push(...await keepExisting([...keys]))
      keys.clear()
    }
    if (end - pausedAt > SLICE_LENGTH) {
      pausedAt = end
      await yieldToEventLoop()
    }
  }
  return [...existing, ...keys]
}

/** Whether a character is an ASCII letter or digit; false behind the end. */
function isLetterOrDigit (text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  const upper = code & ~0x20
  return (code >= 0x30 && code <= 0x39) || (upper >= 0x41 && upper <= 0x5a && code < 0x80)
}

/** @param end where the 22 characters end */
function addKeys (text: string, end: number, keys: Set<string>): void {
  const stem = text.slice(end - STEM_LENGTH, end)
  keys.add(stem)
  SUFFIX.lastIndex = end
  const suffix = SUFFIX.exec(text)
  if (suffix === null) return
  const [, extension] = suffix
  if (extension === undefined) { for (const picture of PICTURES) keys.add(`${stem}.${picture}`) }
  // Other text may follow the extension at once.
  for (let length = SHORTEST_EXTENSION; length <= (extension?.length ?? 0); length++) {
    keys.add(`${stem}.${extension?.slice(0, length)}`)
  }
}
