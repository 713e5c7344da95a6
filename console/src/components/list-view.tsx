import type { ComponentChild } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { SearchedList } from '../core/list.ts'
import { Button } from './button.tsx'
import { ErrorNotice } from './error-notice.tsx'
import { Choice, Field } from './field.tsx'
import { formatNumber } from './format.tsx'

/** The most that the service takes, in characters. */
const MAX_SEARCH_LENGTH = 100
/** How far below the window the end of the list is when more is loaded. */
const MARGIN = '600px'
const SKELETON_ITEMS = 6

interface ListViewProps<Item> {
  readonly list: SearchedList<Item>
  /** What an item is, such as `page`. */
  readonly noun: string
  /** What the search looks at. */
  readonly searchedBy: string
  /** The texts and the values of each parameter. The default is empty. */
  readonly choices: readonly Parameter[]
  readonly listClass: string
  /** Holds the place of an item until the first response. */
  readonly skeleton: ComponentChild
  /** Renders an item as `<li>`. Called again only when the items change. */
  readonly children: (item: Item) => ComponentChild
}

export type Parameter = readonly [
  name: string,
  label: string,
  options: readonly (readonly [text: string, value: string])[]
]

/** A list that can be searched and sorted. It grows when its end comes near. */
export function ListView<Item> (props: ListViewProps<Item>) {
  const { list, noun, listClass, skeleton, children } = props
  const { items, next, isLoading, error, loadMore } = list
  const element = useRef<HTMLUListElement>(null)
  /** The index of the item that gets the focus, because the button may go away. */
  const awaited = useRef<number | undefined>(undefined)
  useEffect(() => {
    if (isLoading) return
    element.current?.children[awaited.current ?? -1]?.querySelector<HTMLElement>('a, button')?.focus()
    awaited.current = undefined
  }, [isLoading])
  // The same elements are not compared again. Of a thousand rows, that would delay typing.
  const rows = useMemo(() => items?.map(children), [items])
  return (
    <>
      <SearchBar {...props} />
      {items === undefined && error === undefined && (
        <div role='status'>
          <span class='visually-hidden'>The {noun}s are being loaded.</span>
          <ul class={listClass} aria-hidden='true'>
            {Array.from({ length: SKELETON_ITEMS }, () => skeleton)}
          </ul>
        </div>
      )}
      {items !== undefined && items.length > 0 && <ul class={listClass} ref={element}>{rows}</ul>}
      {items?.length === 0 && next === undefined && <NothingFound list={list} noun={noun} />}
      <ErrorNotice error={error} onRetry={loadMore} retriesItself />
      {next !== undefined && error === undefined && (
        <LoadMore
          isLoading={isLoading}
          onNear={loadMore}
          onClick={() => {
            awaited.current = items?.length
            loadMore()
          }}
        />
      )}
    </>
  )
}

interface NothingFoundProps<Item> {
  readonly list: SearchedList<Item>
  readonly noun: string
}

function NothingFound<Item> ({ list: { query, setSearch }, noun }: NothingFoundProps<Item>) {
  const text = new URLSearchParams(query).get('q')
  return (
    <div class='empty'>
      <p>
        {text === null ? `No such ${noun}.` : (
          <>
            No {noun} is called “<bdi>{text}</bdi>”.
          </>
        )}
      </p>
      <Button onClick={() => setSearch({})}>Show all {noun}s</Button>
    </div>
  )
}

function SearchBar<Item> ({ list, noun, searchedBy, choices }: ListViewProps<Item>) {
  const { items, error, search, setSearch } = list
  return (
    <div class='list-search' role='search'>
      {(items !== undefined || error !== undefined) && (
        <>
          <Field
            label={`Search by ${searchedBy}`}
            type='search'
            maxLength={MAX_SEARCH_LENGTH}
            value={search.q ?? ''}
            onInput={(q) => setSearch({ ...search, q })}
          />
          {choices.map(([name, label, options]) => (
            <Choice
              label={label}
              value={search[name] ?? ''}
              options={options}
              onChange={(value) => setSearch({ ...search, [name]: value })}
              key={name}
            />
          ))}
        </>
      )}
      <p class='quiet' role='status'>{countText(list, noun)}</p>
    </div>
  )
}

function countText<Item> ({ items, query, next, isSearching }: SearchedList<Item>, noun: string): string {
  if (items === undefined) return ''
  if (isSearching) return 'Searching…'
  const what = /\b(q|type)=/.test(query) ? 'found' : items.length === 1 ? noun : `${noun}s`
  return `${next === undefined ? '' : 'The first '}${formatNumber(items.length)} ${what}`
}

interface LoadMoreProps {
  readonly isLoading: boolean
  readonly onNear: () => void
  readonly onClick: () => void
}

/** Calls `onNear` when it comes near the window. */
function LoadMore ({ isLoading, onNear, onClick }: LoadMoreProps) {
  const element = useRef<HTMLParagraphElement>(null)
  useEffect(() => {
    if (isLoading || element.current === null || !('IntersectionObserver' in globalThis)) return
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) onNear()
    }, { rootMargin: MARGIN })
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [isLoading])
  return (
    <p class='list-more' ref={element}>
      <Button isBusy={isLoading} onClick={onClick}>Load more</Button>
    </p>
  )
}
