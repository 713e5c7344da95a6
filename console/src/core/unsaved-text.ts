// What a person has written and not saved yet, kept for a reload or a crash. This storage belongs to one tab
// and ends with it.

const PREFIX = 'landfall.unsaved.'
/** Of what is stored. The first format had none, and knew no drafts. */
const FORMAT = 2

/** The text of a page that is not saved. */
export interface UnsavedText {
  readonly userId: number
  readonly text: string
  /** Whether it belongs to the draft or to the document. */
  readonly kind: 'document' | 'draft'
  /** The version on which it is based. */
  readonly etag: string
  /** In milliseconds since 1970. */
  readonly writtenAt: number
}

/** Returns what a user has written on a page in this tab and not saved. */
export function readUnsaved (pageId: string, userId: number): UnsavedText | undefined {
  const unsaved = read(PREFIX + pageId)
  return unsaved?.userId === userId ? unsaved : undefined
}

/** Keeps the text of a page in this tab. Returns whether there is place for it. */
export function keepUnsaved (pageId: string, unsaved: UnsavedText): boolean {
  try {
    sessionStorage.setItem(PREFIX + pageId, JSON.stringify({ format: FORMAT, ...unsaved }))
    return true
  } catch {
    // Rather nothing than something older.
    forgetUnsaved(pageId)
    return false
  }
}

/** Forgets the text of a page. */
export function forgetUnsaved (pageId: string): void {
  try {
    sessionStorage.removeItem(PREFIX + pageId)
  } catch {
    // Storage is turned off.
  }
}

/** Forgets the texts of all users but one, or of all. */
export function forgetUnsavedOfOthers (userId: number | undefined): void {
  for (const key of keys()) {
    if (userId === undefined || read(key)?.userId !== userId) forgetUnsaved(key.slice(PREFIX.length))
  }
}

function keys (): readonly string[] {
  try {
    return Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX))
  } catch {
    return []
  }
}

function read (key: string): UnsavedText | undefined {
  try {
    const { format = 1, ...unsaved } = JSON.parse(sessionStorage.getItem(key) ?? '') as
      & UnsavedText
      & { format?: number }
    return format > FORMAT ? undefined : { ...unsaved, kind: format === 1 ? 'document' : unsaved.kind }
  } catch {
    return undefined
  }
}
