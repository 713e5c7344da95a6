import type { List, ListOptions } from '@landfall/client'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
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
  /** Loads again what is shown, which stays until then. */
  reload(): void
  remove(id: string): void
}

/** What was loaded of a list, with the id of the user. */
interface KeptList<Item> {
  readonly of: number
  readonly state: State<Item>
}

/** Requests one part of a list. */
type Load<Item, Options> = (options: Options) => Promise<List<Item>>

/**
 * A list of the service by what the person looks for.
 *
 * @param limit the number of items in one part
 * @param isScreen whether the address keeps what the person looks for, and Back shows what was loaded
 * @param initial what is looked for at first
 */
export function useList<Item extends { readonly id: string }, Options extends ListOptions> (
  load: Load<Item, Options>,
  limit: number,
  isScreen: boolean,
  initial: Search = {}
): SearchedList<Item> {
  const { id: userId } = useUser()
  const { search, setSearch, query } = useSearch(isScreen, initial)
  const [place] = useState<Place>(() => isScreen ? getPlace() : {})
  const [kept] = useState(() => {
    const { of, state } = (place.list ?? {}) as Partial<KeptList<Item>>
    return of === userId && state?.query === query ? state : undefined
  })
  const { state, loadMore, reload, remove } = useParts(load, limit, query, kept)
  useLayoutEffect(() => {
    place.list = { of: userId, state } satisfies KeptList<Item>
  }, [state])
  const { items, isLoading } = state
  return {
    ...state,
    isEmpty: query + state.query === '' && items?.length === 0 && state.next === undefined,
    isSearching: isLoading && (state.query !== query || !items?.length),
    search,
    setSearch,
    loadMore,
    reload,
    remove
  }
}

/** Loads the parts of a list. Ends a request that is out of date. @param kept is shown at first */
function useParts<Item extends { readonly id: string }, Options extends ListOptions> (
  load: Load<Item, Options>,
  limit: number,
  query: string,
  kept: State<Item> | undefined
) {
  const [state, setState] = useState<
    State<Item>
  >(kept ?? { query, items: undefined, next: undefined, isLoading: true, error: undefined })
  const [attempt, setAttempt] = useState(0)
  /** Whether what is shown may be out of date, so that all of it is loaded again. */
  const isOld = useRef(kept !== undefined)
  const removed = useRef(new Set<string>())
  const loadParts = async (signal: AbortSignal) => {
    const isSame = state.query === query
    const old = isSame && isOld.current ? state.items : undefined
    setState((before) => ({ ...before, isLoading: true, error: undefined }))
    let found = isSame && old === undefined ? state.items : undefined
    let cursor = isSame && old === undefined ? state.next : undefined
    const wanted = old?.length ?? (found?.length ?? 0) + 1
    // A part may be empty, because the service looks at a limited number of records for each.
    do {
      const options = { ...Object.fromEntries(new URLSearchParams(query)), limit, cursor, signal }
      const { items, next } = await load(options as ListOptions as Options)
      signal.throwIfAborted()
      found = join(found, items)
      cursor = next
      const isLoading = next !== undefined && found.length < wanted
      if (old === undefined || !isLoading) {
        const items = found.filter(({ id }) => !removed.current.has(id))
        setState({ query, items, next, isLoading, error: undefined })
      }
    } while (cursor !== undefined && found.length < wanted)
    isOld.current = false
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
  const reload = () => {
    isOld.current = true
    loadMore()
  }
  const remove = (id: string) => {
    removed.current.add(id) // a request that is under way may still find it
    setState((before) => ({ ...before, items: before.items?.filter((item) => item.id !== id) }))
  }
  return { state, loadMore, reload, remove }
}

/** An item that has moved meanwhile, because it was changed, is found twice. */
const join = <Item extends { readonly id: string }>(
  first: readonly Item[] = [],
  second: readonly Item[] = []
): readonly Item[] => [...new Map([...first, ...second].map((item) => [item.id, item])).values()]

/** Returns what is typed and chosen, and the query that it becomes when the person pauses. */
function useSearch (isScreen: boolean, initial: Search) {
  const { id: userId } = useUser() // who signs in next must not see what somebody has looked for
  const [query, setQuery] = useState(() => {
    if (!isScreen) return new URLSearchParams(initial).toString()
    return (history.state?.userId ?? userId) === userId ? getQuery() : ''
  })
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
