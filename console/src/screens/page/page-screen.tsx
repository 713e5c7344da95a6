import { useEffect, useMemo, useState } from 'preact/hooks'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { LeaveDialog } from '../../components/leave-dialog.tsx'
import { MissingNotice } from '../../components/missing-notice.tsx'
import { Screen } from '../../components/screen.tsx'
import { findLabel, nameOf } from '../../core/labels.ts'
import { useAction, useLoad } from '../../core/load.ts'
import { isMissing } from '../../core/missing.ts'
import { href, navigate } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { DeleteThisPage } from './delete-this-page.tsx'
import { EditTab } from './edit-tab.tsx'
import { loadEdited, type EditedPage } from './edited-document.ts'
import { HistoryTab } from './history-tab.tsx'
import { duplicate, PageActions } from './page-actions.tsx'
import { Publication } from './publication.tsx'
import { VisitorsTab } from './visitors-tab.tsx'
import { useDroppedFiles } from './use-dropped-files.ts'
import { useEditing } from './use-editing.ts'
import { UseTab } from './use-tab.tsx'

const TABS = [['edit', 'Edit'], ['history', 'History'], ['readers', 'Visitors'], ['use', 'Use']] as const

interface PageScreenProps {
  readonly id: string
  readonly tab: string
}

/** One page: its document, its versions, its visitors and how to use it. */
export function PageScreen ({ id, tab }: PageScreenProps) {
  const { data: page, error, reload } = useLoad(async (signal) => await loadPage(id, signal), [id])
  const [savedText, setSavedText] = useState<string>()
  const duplication = useAction(async () => await duplicate(id))
  const [isDeleting, setIsDeleting] = useState(false)
  const [isDeleted, setIsDeleted] = useState(false)
  // After the editor, and with it the question about unsaved changes, has gone.
  useEffect(() => {
    if (isDeleted) navigate('pages')
  }, [isDeleted])
  const text = savedText ?? page?.edited.text
  const label = useMemo(() => text === undefined ? null : findLabel(text), [text])
  const name = page && nameOf(label, page.publicId)
  return (
    <Screen
      title={name ?? 'Page'}
      actions={page && (
        <PageActions
          id={id}
          publicId={page.publicId}
          duplication={duplication}
          onDelete={() => setIsDeleting(true)}
        />
      )}
    >
      <ErrorNotice error={duplication.error} />
      {isMissing(error) ? <MissingNotice what='page' />
        : <ErrorNotice error={page === undefined ? error : undefined} onRetry={reload} retriesItself />}
      {page === undefined && error === undefined && <p class='quiet'>Loading the page …</p>}
      {page !== undefined && name === page.publicId && (
        <p class='quiet'>Add a “title” to the document to give this page a name.</p>
      )}
      {page !== undefined && !isDeleted && (
        <LoadedPage
          id={id}
          publicId={page.publicId}
          page={page}
          tab={tab}
          onSaved={setSavedText}
        />
      )}
      {page !== undefined && isDeleting && (
        <DeleteThisPage
          id={id}
          publicId={page.publicId}
          name={name ?? page.publicId}
          onDeleted={() => {
            setIsDeleting(false)
            setIsDeleted(true)
          }}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </Screen>
  )
}

async function loadPage (id: string, signal: AbortSignal): Promise<EditedPage & { publicId: string }> {
  // In a record, a document has no white space around it. Only the document alone is exact.
  const [record, page] = await Promise.all([
    landfall.landingPages.get(id, { signal }),
    loadEdited(id, signal)
  ])
  return { publicId: record.public_id, ...page }
}

interface LoadedPageProps {
  readonly id: string
  readonly publicId: string
  /** As it was loaded. */
  readonly page: EditedPage
  readonly tab: string
  readonly onSaved: (text: string) => void
}

function LoadedPage ({ id, publicId, page, tab, onSaved }: LoadedPageProps) {
  const editing = useEditing(id, page, onSaved)
  const shown = TABS.some(([path]) => path === tab) ? tab : 'edit'
  const { addFiles, isDragging } = useDroppedFiles(editing, shown === 'edit' && editing.lockedUntil === null)
  return (
    <>
      <Publication publicId={publicId} editing={editing} />
      <nav class='tabs' aria-label='This page'>
        {TABS.map(([path, name]) => (
          <a
            class='tabs__tab'
            href={path === 'edit' ? href('pages', id) : href('pages', id, path)}
            aria-current={path === shown ? 'page' : undefined}
            aria-label={path === 'edit' && editing.isChanged ? `${name}, unsaved changes` : undefined}
            key={path}
          >
            {name}
            {path === 'edit' && editing.isChanged && ' •'}
          </a>
        ))}
      </nav>
      {/* Always there, so that unsaved text stays. */}
      <EditTab
        editing={editing}
        text={page.edited.text}
        isShown={shown === 'edit'}
        onFiles={addFiles}
      />
      {isDragging && (
        <p class='drop-target drop-target--clear'>
          <span class='drop-target__text'>Drop files to upload them.</span>
        </p>
      )}
      {shown === 'history' && <HistoryTab id={id} editing={editing} />}
      {shown === 'readers' && <VisitorsTab id={id} />}
      {shown === 'use' && <UseTab publicId={publicId} />}
      <LeaveDialog
        title='Leave without saving?'
        stay='Stay here'
        leave='Leave without saving'
        isChanged={editing.isChanged}
        pageId={id}
      >
        <p>Your changes to this page are not saved.</p>
      </LeaveDialog>
    </>
  )
}
