import { useMemo, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Field } from '../../components/field.tsx'
import { useGrowingList } from '../../components/growing-list.ts'
import { useFileDrop } from '../../components/file-drop.ts'
import { Screen } from '../../components/screen.tsx'
import { keepInHistory } from '../../core/router.ts'
import { useUser } from '../../core/session.ts'
import { DeletePage } from './delete-page.tsx'
import { NewPage } from './new-page.tsx'
import { PageList, PageListSkeleton } from './page-list.tsx'
import { filterPages, useSummaries, type ListedPage, type Summaries } from './summaries.ts'

/** Pages that are shown at first, and that are added each time. */
const SHOWN = 100

/** All pages of the account. */
export function PagesScreen () {
  const summaries = useSummaries()
  const { pages, isComplete, error, retry, remove } = summaries
  /** The files of the dialog for a new page; undefined while it is closed. */
  const [newFiles, setNewFiles] = useState<readonly File[]>()
  const [toDelete, setToDelete] = useState<ListedPage>()
  const isDragging = useFileDrop((files) => {
    if (toDelete === undefined) setNewFiles(files)
  })
  const create = () => setNewFiles([])
  const isEmpty = pages?.length === 0 && isComplete
  return (
    <Screen
      title='Pages'
      actions={!isEmpty && <Button kind='primary' onClick={create}>New page</Button>}
    >
      {isEmpty ? <NoPages onCreate={create} />
        : <FilteredPages summaries={summaries} onDelete={setToDelete} />}
      <ErrorNotice error={error} onRetry={retry} retriesItself />
      {isDragging && <p class='drop-target'>Drop a JSON file to create a page from it.</p>}
      {newFiles !== undefined && <NewPage files={newFiles} onClose={() => setNewFiles(undefined)} />}
      {toDelete !== undefined && (
        <DeletePage
          page={toDelete}
          onDeleted={() => {
            remove(toDelete.id)
            setToDelete(undefined)
          }}
          onClose={() => setToDelete(undefined)}
        />
      )}
    </Screen>
  )
}

function NoPages ({ onCreate }: { readonly onCreate: () => void }) {
  return (
    <div class='empty'>
      <h2>Create your first page</h2>
      <p>
        A page is a JSON document with a public address, from which your website reads it. You can change it
        here at any time.
      </p>
      <Button kind='primary' onClick={onCreate}>New page</Button>
      <p class='quiet'>Or drop a JSON file here.</p>
    </div>
  )
}

/** Which pages are shown. */
interface View {
  readonly filter: string
  readonly limit: number
}

const ALL: View = { filter: '', limit: SHOWN }

/** The history of the browser remembers the view, so that going back from a page leads to the same ones. */
function useView (): [View, (view: View) => void] {
  const { id: userId } = useUser() // who signs in next must not see what somebody has looked for
  const [view, setView] = useState<View>(() => history.state?.userId === userId ? history.state : ALL)
  return [view, (next) => {
    keepInHistory({ ...next, userId })
    setView(next)
  }]
}

interface FilteredPagesProps {
  readonly summaries: Summaries
  readonly onDelete: (page: ListedPage) => void
}

function FilteredPages ({ summaries: { pages, isComplete, error }, onDelete }: FilteredPagesProps) {
  const [{ filter, limit }, setView] = useView()
  const found = useMemo(() => filterPages(pages ?? [], filter), [pages, filter])
  const shown = found.slice(0, limit)
  const { ref, focusNext } = useGrowingList(shown.length)
  // The same elements are not compared again. Of a thousand rows, that would delay typing.
  const list = useMemo(() => <PageList pages={shown} listRef={ref} onDelete={onDelete} />, [found, limit])
  return (
    <>
      <div class='pages-filter'>
        <Field
          label='Filter by name or public id'
          type='search'
          value={filter}
          onInput={(text) => setView({ filter: text, limit: SHOWN })}
        />
        <p class='quiet' role='status'>
          {pages !== undefined && countText(pages.length, found.length, filter, isComplete)}
        </p>
      </div>
      {pages === undefined ? error === undefined && <PageListSkeleton /> : found.length > 0 && list}
      {found.length === 0 && isComplete && (
        <div class='empty'>
          <p>No page matches the filter.</p>
          <Button onClick={() => setView(ALL)}>Show all pages</Button>
        </div>
      )}
      {shown.length < found.length && (
        <p class='pages-more'>
          <Button
            onClick={() => {
              focusNext()
              setView({ filter, limit: limit + SHOWN })
            }}
          >
            Show {Math.min(SHOWN, found.length - shown.length)} more
          </Button>
        </p>
      )}
    </>
  )
}

/** Doesn't count while pages are loaded without a filter, because screen readers would say each number. */
function countText (all: number, found: number, filter: string, isComplete: boolean): string {
  const more = isComplete ? '' : ', and more pages are being loaded'
  if (filter.trim() !== '') return `${found.toLocaleString()} found${more}`
  if (!isComplete) return 'More pages are being loaded'
  return `${all.toLocaleString()} ${all === 1 ? 'page' : 'pages'}`
}
