/** Strings are cut into pieces of at most this length. */
const PIECE_LENGTH = 16 * 1024
/** What two pieces share. A key has less, however it is escaped, so it is whole in one of them. */
const OVERLAP = 4 * 1024
/** Shorter strings have no key. */
const MIN_LENGTH = 22
/** Characters of a document between two pauses. */
const SLICE_LENGTH = 64 * 1024

const COLON = /[ \t\n\r]*:/y

/**
 * Yields the text of the strings in a document, with their escapes, but without names of members and without
 * short strings. Yields undefined now and then for a pause.
 *
 * @param json valid JSON
 */
export function* stringValues (json: string): Generator<string | undefined, void, void> {
  let pausedAt = 0
  let start = json.indexOf('"') + 1
  while (start > 0) {
    let end = start - 1
    do {
      end = json.indexOf('"', end + 1)
      if (end - pausedAt > SLICE_LENGTH) {
        pausedAt = end
        yield undefined
      }
    } while (isEscaped(json, end))
    if (end - start >= MIN_LENGTH && !isName(json, end + 1)) {
      for (let at = start; at < end; at += PIECE_LENGTH - OVERLAP) {
        yield json.slice(at, Math.min(end, at + PIECE_LENGTH))
        if (at + PIECE_LENGTH >= end) break
      }
    }
    start = json.indexOf('"', end + 1) + 1
  }
}

/** Whether an odd number of backslashes stands before a character. */
function isEscaped (json: string, at: number): boolean {
  let start = at
  while (json[start - 1] === '\\') start--
  return (at - start) % 2 === 1
}

/** @param end where the string ends */
function isName (json: string, end: number): boolean {
  COLON.lastIndex = end
  return COLON.test(json)
}
