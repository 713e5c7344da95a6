import type { List, ListOptions } from '@landfall/client'
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { useAfterSignIn } from './load.ts'
import { getPlace, getQuery, keepInHistory, replaceQuery, type Place } from './router.ts'
import { useUser } from './session.ts'

/** How long a person pauses before what they have typed is searched for. */
const DEBOUNCE_MS = 250

/** What a person looks for, by the parameter of the list. */
export type Search = Readonly<Record<string, string>>

interface State<Item> {
  /** The query string of the search that found the items, such as `q=text&sort=label`. */
  readonly query: string
  /** What was loaded so far; undefined before the first response. */
  readonly items: readonly Item[] | undefined
  /** The cursor of the next part; undefined after the last one. */
  readonly next: string | undefined
  readonly isLoading: boolean
  readonly error: unknown
}

export interface SearchedList<Item> extends State<Item> {
  /** Whether the account has no items at all. */
  readonly isEmpty: boolean
  /** Whether a search is under way. Until it ends, the items are those of the search before, if any. */
  readonly isSearching: boolean
  /** What is typed and chosen. */
  readonly search: Search
  setSearch(search: Search): void
  /** Loads the next part, or the same part again after an error. */
  loadMore(): void
  /** Puts an item first. */
  add(item: Item): void
  remove(id: string): void
}

/** Requests one part of a list. */
type Load<Item, Options> = (options: Options) => Promise<List<Item>>

/**
 * A list of the service by what the person looks for.
 *
 * @param limit the number of items in one part
 * @param isScreen whether the address keeps what the person looks for, and Back leads to the same place
 */
export function useList<Item extends { readonly id: string }, Options extends ListOptions> (
  load: Load<Item, Options>,
  limit: number,
  isScreen: boolean
): SearchedList<Item> {
  const { search, setSearch, query } = useSearch(isScreen)
  const [place] = useState<Place>(() => isScreen ? getPlace() : {})
  const [state, setState, loadMore] = useParts(load, limit, query, place)
  const { items, isLoading } = state
  useLayoutEffect(() => {
    if (items === undefined || isLoading) return
    place.count = items.length
    if (place.top !== undefined) scrollTo(0, place.top)
    place.top = undefined
  }, [items, isLoading])
  return {
    ...state,
    isEmpty: query + state.query === '' && items?.length === 0 && state.next === undefined,
    isSearching: isLoading && (state.query !== query || !items?.length),
    search,
    setSearch,
    loadMore,
    add: (item) => setState((before) => ({ ...before, items: join([item], before.items) })),
    remove (id) {
      setState((before) => ({ ...before, items: before.items?.filter((item) => item.id !== id) }))
    }
  }
}

/** Loads the parts of a list, at first up to `place`. Ends a request that is out of date. */
function useParts<Item extends { readonly id: string }, Options extends ListOptions> (
  load: Load<Item, Options>,
  limit: number,
  query: string,
  place: Place
) {
  const [state, setState] = useState<State<Item>>({
    query,
    items: undefined,
    next: undefined,
    isLoading: true,
    error: undefined
  })
  const [attempt, setAttempt] = useState(0)
  const loadParts = async (signal: AbortSignal) => {
    setState((before) => ({ ...before, isLoading: true, error: undefined }))
    let cursor = state.query === query ? state.next : undefined
    let missing = state.items === undefined ? place.count ?? 1 : 1
    // A part may be empty, because the service looks at a limited number of records for each.
    do {
      const options = { ...Object.fromEntries(new URLSearchParams(query)), limit, cursor, signal }
      const { items, next } = await load(options as ListOptions as Options)
      signal.throwIfAborted()
      cursor = next
      missing -= items.length
      const isLoading = next !== undefined && missing > 0
      setState((before) => ({
        ...{ query, next, isLoading, error: undefined },
        items: join(before.query === query ? before.items : undefined, items)
      }))
    } while (cursor !== undefined && missing > 0)
  }
  useEffect(() => {
    const controller = new AbortController()
    loadParts(controller.signal).catch((error: unknown) => {
      if (!controller.signal.aborted) setState((before) => ({ ...before, isLoading: false, error }))
    })
    return () => controller.abort()
  }, [query, attempt])
  const loadMore = () => setAttempt((count) => count + 1)
  useAfterSignIn(state.error, loadMore)
  return [state, setState, loadMore] as const
}

/** An item that has moved meanwhile, because it was changed, is found twice. */
const join = <Item extends { readonly id: string }>(
  first: readonly Item[] = [],
  second: readonly Item[] = []
): readonly Item[] => [...new Map([...first, ...second].map((item) => [item.id, item])).values()]

/** Returns what is typed and chosen, and the query that it becomes when the person pauses. */
function useSearch (isScreen: boolean) {
  const { id: userId } = useUser() // who signs in next must not see what somebody has looked for
  const [query, setQuery] = useState(() =>
    isScreen && (history.state?.userId ?? userId) === userId ? getQuery() : ''
  )
  const [search, setSearch] = useState<Search>(() => Object.fromEntries(new URLSearchParams(query)))
  useEffect(() => {
    const given = Object.entries(search).map(([name, value]) => [name, value.trim()])
    const wanted = new URLSearchParams(given.filter(([, value]) => value !== '')).toString()
    const timer = setTimeout(() => setQuery(wanted), DEBOUNCE_MS)
    return () => clearTimeout(timer)
  }, [search])
  useEffect(() => {
    if (!isScreen) return
    replaceQuery(query)
    keepInHistory({ userId })
  }, [query])
  return { search, setSearch, query }
}
