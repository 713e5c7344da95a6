import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { describeLocally } from '../../components/date-time-field.tsx'
import { PageState } from '../../components/page-state.tsx'
import { CompareDraft, DiscardDraft, Unpublish } from './draft-dialogs.tsx'
import { PreviewLinks } from './preview-links.tsx'
import { SavedBy } from './saved-by.tsx'
import { ScheduleDialog } from './schedule-dialog.tsx'
import type { Editing } from './use-editing.ts'

interface PublicationProps {
  readonly publicId: string
  readonly editing: Editing
}

/** Whether visitors get the page, whether it has a draft, and what can be done about both. */
export function Publication ({ publicId, editing }: PublicationProps) {
  const { id, isChanged, kind, publication, lockedUntil } = editing
  const { published, publish_at: publishAt, unpublish_at: unpublishAt } = publication
  const [asked, setAsked] = useState<'compare' | 'discard' | 'schedule' | 'previews' | 'unpublish'>()
  const close = () => setAsked(undefined)
  const other = published ? 'the published version' : 'the saved version'
  const isScheduled = publishAt !== null || unpublishAt !== null
  return (
    <section class='publication' aria-label='Publication'>
      <PageState
        published={published}
        hasDraft={kind === 'draft'}
        publishAt={publishAt}
        unpublishAt={unpublishAt}
      />
      <Explanation editing={editing} />
      <div class='publication__actions'>
        {kind === 'draft' && (
          <Button
            kind='quiet'
            label={`Compare with ${other}`}
            onClick={() => setAsked('compare')}
          >
            Compare
          </Button>
        )}
        {kind === 'draft' && lockedUntil === null && (
          <Button kind='quiet' onClick={() => setAsked('discard')}>Discard draft</Button>
        )}
        <Button kind='quiet' onClick={() => setAsked('schedule')}>
          {isScheduled ? 'Change the schedule' : 'Schedule'}
        </Button>
        <Button kind='quiet' onClick={() => setAsked('previews')}>Preview links</Button>
        {published && <Button kind='quiet' onClick={() => setAsked('unpublish')}>Unpublish</Button>}
      </div>
      {asked === 'compare' && <CompareDraft other={other} editing={editing} onClose={close} />}
      {asked === 'unpublish' && <Unpublish editing={editing} onClose={close} />}
      {asked === 'discard' && <DiscardDraft other={other} editing={editing} onClose={close} />}
      {asked === 'previews' && <PreviewLinks page={{ id, publicId }} isChanged={isChanged} onClose={close} />}
      {asked === 'schedule' && <ScheduleDialog editing={editing} onClose={close} />}
    </section>
  )
}

/** What the state means for visitors, and for the text in the editor. */
function Explanation ({ editing: { kind, publication, lockedUntil } }: { readonly editing: Editing }) {
  const { published, draft } = publication
  if (kind === 'document') {
    return published ? null : <p>Visitors get “Not found” until you publish the page.</p>
  }
  return (
    <p>
      You see the draft{draft !== null && (
        <>
          , saved <SavedBy saved={{ at: draft.updated_at, by: draft.author.name }} />
        </>
      )}. {published ? 'Visitors see the published version' : 'Visitors get “Not found”'} until{' '}
      {lockedUntil === null ? 'you publish it.' : (
        <>
          {describeLocally(new Date(lockedUntil))}. Then the draft is published, exactly as it is: to change
          it, remove the schedule first.
        </>
      )}
      {draft?.outdated === true && lockedUntil === null && ' The page has changed since the draft was begun.'}
    </p>
  )
}
