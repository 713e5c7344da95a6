import type { LandingPageSummary } from '@landfall/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { nameOf } from '../../core/labels.ts'
import { useReloadAfterSignIn } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'

/** Pages in one response, the most that the service gives. */
const PART = 100

/** A page in the list. */
export interface ListedPage extends LandingPageSummary {
  /** The label, or else the public id. */
  readonly name: string
  /** The label as the filter compares it. */
  readonly searched: string
}

export interface Summaries {
  /** What has been loaded so far, newest first; undefined before the first response. */
  readonly pages: readonly ListedPage[] | undefined
  readonly isComplete: boolean
  readonly error: unknown
  /** Goes on after an error. */
  retry(): void
  /** Takes a page that was deleted out of the list. */
  remove(id: string): void
}

type State = Omit<Summaries, 'retry' | 'remove'>

/** Loads all pages of the account, one part after the other. */
export function useSummaries (): Summaries {
  const [state, setState] = useState<State>({ pages: undefined, isComplete: false, error: undefined })
  const cursor = useRef<string | undefined>(undefined)
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    const load = async () => {
      do {
        const { items, next } = await landfall.landingPages.summariesPage({
          limit: PART,
          cursor: cursor.current,
          signal
        })
        signal.throwIfAborted()
        cursor.current = next
        setState(({ pages = [] }) => ({
          pages: [...pages, ...items.map(listedPage)],
          isComplete: next === undefined,
          error: undefined
        }))
      } while (cursor.current !== undefined)
    }
    load().catch((error: unknown) => {
      if (!signal.aborted) setState((before) => ({ ...before, error }))
    })
    return () => controller.abort()
  }, [attempt])
  const retry = () => {
    setState((before) => ({ ...before, error: undefined }))
    setAttempt((count) => count + 1)
  }
  useReloadAfterSignIn(state.error, retry)
  return {
    ...state,
    retry,
    remove (id) {
      setState((before) => ({ ...before, pages: before.pages?.filter((page) => page.id !== id) }))
    }
  }
}

function listedPage (summary: LandingPageSummary): ListedPage {
  const { label, public_id: publicId } = summary
  const name = nameOf(label, publicId)
  return { ...summary, name, searched: name === publicId ? '' : normalize(name) }
}

const normalize = (text: string): string => text.normalize('NFKC').toLowerCase()

/** Returns the pages whose label contains all words, or whose public id begins with the text. */
export function filterPages (pages: readonly ListedPage[], text: string): readonly ListedPage[] {
  const words = normalize(text).split(/\s+/).filter(Boolean)
  if (words.length === 0) return pages
  return pages.filter(({ searched, public_id: publicId }) =>
    words.every((word) => searched.includes(word)) || publicId.startsWith(text.trim())
  )
}
