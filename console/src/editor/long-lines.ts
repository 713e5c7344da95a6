/** A line so long, in UTF-16 units, that wrapping it would make the editor slow. */
const LONG_LINE = 200_000

/**
 * Whether a text has a line that is longer than `limit`, in UTF-16 units. The default is what the editor
 * doesn't wrap.
 */
export function hasLongLine (text: string, limit = LONG_LINE): boolean {
  for (let start = 0; start + limit < text.length;) {
    const end = text.lastIndexOf('\n', start + limit)
    if (end < start) return true
    start = end + 1
  }
  return false
}
