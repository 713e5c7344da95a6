import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { PageState } from '../../components/page-state.tsx'
import { useAction } from '../../core/load.ts'
import { CompareDraft, DiscardDraft } from './draft-dialogs.tsx'
import { SavedBy } from './saved-by.tsx'
import type { Editing } from './use-editing.ts'

/** Whether visitors get the page, whether it has a draft, and what can be done about both. */
export function Publication ({ editing }: { readonly editing: Editing }) {
  const { kind, publication: { published, draft } } = editing
  const [asked, setAsked] = useState<'compare' | 'discard'>()
  const unpublishing = useAction(editing.unpublish)
  const close = () => setAsked(undefined)
  const other = published ? 'the published version' : 'the saved version'
  return (
    <section class='publication' aria-label='Publication'>
      <PageState published={published} hasDraft={kind === 'draft'} />
      {kind === 'draft' && (
        <p class='publication__draft'>
          You see the draft{draft !== null && (
            <>
              , saved <SavedBy saved={{ at: draft.updated_at, by: draft.author.name }} />
            </>
          )}. {published ? 'Visitors see the published version' : 'Visitors get “Not found”'}{' '}
          until you publish it.{draft?.outdated === true &&
            ' The page has changed since the draft was begun.'}
        </p>
      )}
      {kind === 'document' && !published && (
        <p class='publication__draft'>Visitors get “Not found” until you publish the page.</p>
      )}
      <div class='publication__actions'>
        {kind === 'draft' && (
          <>
            <Button kind='quiet' onClick={() => setAsked('compare')}>Compare with {other}</Button>
            <Button kind='quiet' onClick={() => setAsked('discard')}>Discard draft</Button>
          </>
        )}
        {published && (
          <Button kind='quiet' isBusy={unpublishing.isRunning} onClick={() => unpublishing.run()}>
            Unpublish
          </Button>
        )}
      </div>
      <ErrorNotice error={unpublishing.error} />
      {asked === 'compare' && <CompareDraft other={other} editing={editing} onClose={close} />}
      {asked === 'discard' && <DiscardDraft other={other} editing={editing} onClose={close} />}
    </section>
  )
}
