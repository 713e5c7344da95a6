import { useEffect, useRef, useState } from 'preact/hooks'
import { sessionStore, useUser } from '../../core/session.ts'
import { forgetUnsaved, keepUnsaved, readUnsaved, type UnsavedText } from '../../core/unsaved-text.ts'
import type { EditedDocument } from './edited-document.ts'

/** So much typing can be lost by a crash. */
const KEEP_DELAY_MS = 500

/** Keeps the text of a page through a reload and a crash, until it is saved or discarded. */
export interface UnsavedTextKeeper {
  /** What an earlier visit has left, until the person has decided about it. */
  readonly found: UnsavedText | undefined
  /** Whether there is place for the text. */
  readonly hasPlace: boolean
  /** What has become of the version on which what was found is based. */
  readonly fate: 'same' | 'changed' | 'draft ended' | 'draft begun'
  /** Keeps the text soon, or forgets it if it is saved. To be called after each change. */
  note(): void
  restore(): void
  discard(): void
}

interface WorkingText {
  getText(): string
  /** Returns the version on which the text is based. */
  getBase(): EditedDocument
  /** Takes a text that is based on another version, perhaps. */
  restore(text: string, etag: string): void
}

/** @param loaded the draft or document when its page was opened */
export function useUnsavedText (
  pageId: string,
  loaded: EditedDocument,
  { getText, getBase, restore }: WorkingText
): UnsavedTextKeeper {
  const { id: userId } = useUser()
  const [found, setFound] = useState(() => {
    const unsaved = readUnsaved(pageId, userId)
    return unsaved?.text === loaded.text ? undefined : unsaved
  })
  const isUndecided = useRef(found !== undefined)
  const [hasPlace, setHasPlace] = useState(true)
  const timer = useRef<number | undefined>(undefined)
  const keep = () => {
    clearTimeout(timer.current)
    timer.current = undefined
    // After a sign-out, what is typed stays on the screen only.
    if (isUndecided.current || sessionStore.get().status !== 'signed-in') return
    const text = getText()
    const base = getBase()
    if (text === base.text) {
      forgetUnsaved(pageId)
      setHasPlace(true)
    } else {setHasPlace(keepUnsaved(pageId, {
        userId,
        text,
        kind: base.kind,
        etag: base.etag,
        writtenAt: Date.now()
      }))}
  }
  const latest = useRef(keep)
  latest.current = keep
  useEffect(() => {
    const keepNow = () => latest.current()
    // A tab in the background may end without any other event.
    const keepHidden = () => {
      if (document.visibilityState === 'hidden') keepNow()
    }
    addEventListener('pagehide', keepNow)
    document.addEventListener('visibilitychange', keepHidden)
    return () => {
      removeEventListener('pagehide', keepNow)
      document.removeEventListener('visibilitychange', keepHidden)
      clearTimeout(timer.current)
      // The person has left the page, and has chosen not to save.
      if (!isUndecided.current) forgetUnsaved(pageId)
    }
  }, [])
  const decide = () => {
    isUndecided.current = false
    setFound(undefined)
  }
  return {
    found,
    hasPlace,
    fate: found === undefined || (found.kind === loaded.kind && found.etag === loaded.etag) ? 'same'
      : found.kind === loaded.kind ? 'changed'
      : loaded.kind === 'draft' ? 'draft begun' : 'draft ended',
    note () {
      timer.current ??= setTimeout(() => latest.current(), KEEP_DELAY_MS)
    },
    restore () {
      decide()
      if (found !== undefined) restore(found.text, found.etag)
    },
    discard () {
      decide()
      forgetUnsaved(pageId)
    }
  }
}
