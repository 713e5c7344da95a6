import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

export interface GrowingList {
  /** For the element whose children are the entries. */
  readonly ref: RefObject<HTMLUListElement | null>
  /** Gives the focus to the first entry that is added next, because the button for it may go away. */
  focusNext(): void
}

/** Keeps the focus in a list that a person lets grow. @param count the entries that are shown */
export function useGrowingList (count: number): GrowingList {
  const ref = useRef<HTMLUListElement>(null)
  const awaited = useRef<number | undefined>(undefined)
  useEffect(() => {
    if (awaited.current === undefined || count <= awaited.current) return
    ref.current?.children[awaited.current]?.querySelector<HTMLElement>('a, button')?.focus()
    awaited.current = undefined
  }, [count])
  return {
    ref,
    focusNext () {
      awaited.current = count
    }
  }
}
