import { PreconditionFailedError } from '@landfall/client'
import { Button } from '../../components/button.tsx'
import { DangerActions } from '../../components/danger-actions.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { Comparison } from './comparison.tsx'
import type { Editing } from './use-editing.ts'

interface UnpublishProps {
  readonly editing: Editing
  readonly onClose: () => void
}

interface DraftDialogProps extends UnpublishProps {
  /** What the draft is to replace, such as `the published version`. */
  readonly other: string
}

/** Shows what differs between the document and the draft as it is in the editor. */
export function CompareDraft ({ editing: { id, views }, other, onClose }: DraftDialogProps) {
  const { data, error, reload } = useLoad(
    async (signal) => await landfall.landingPages.getDocument(id, { signal }),
    [id]
  )
  return (
    <Dialog title={`The draft and ${other}`} size='large' onClose={onClose}>
      <ErrorNotice error={error} onRetry={reload} />
      {data === undefined && error === undefined && <p class='quiet'>Loading {other} …</p>}
      {data !== undefined && (
        <Comparison
          before={{ text: data.text, label: `${other[0]?.toUpperCase()}${other.slice(1)}` }}
          after={{ text: views.getText(), label: 'The draft' }}
          ignoresSpace
          isCodeFirst={views.shown === 'text'}
        />
      )}
      <Actions>
        <Button onClick={onClose}>Close</Button>
      </Actions>
    </Dialog>
  )
}

/** Asks whether to discard the draft, and discards it. */
export function DiscardDraft ({ editing, other, onClose }: DraftDialogProps) {
  const discarding = useAction(async () => {
    try {
      await editing.discardDraft()
    } catch (error) {
      throw error instanceof PreconditionFailedError
        ? new Error('The draft was just changed elsewhere. Keep it, and look at it before you discard it.')
        : error
    }
    onClose()
  })
  return (
    <Dialog title='Discard this draft?' onClose={onClose} canCancel={!discarding.isRunning}>
      <p>
        You then see {other}{' '}
        again, which stays as it is. Discarded drafts are neither in the history nor in the trash.
      </p>
      <DangerActions action={discarding} text='Discard draft' safeText='Keep the draft' onClose={onClose} />
    </Dialog>
  )
}

/** Asks whether to take the page away from visitors, and does so. */
export function Unpublish ({ editing, onClose }: UnpublishProps) {
  const unpublishing = useAction(async () => {
    await editing.unpublish()
    onClose()
  })
  return (
    <Dialog title='Unpublish this page?' onClose={onClose} canCancel={!unpublishing.isRunning}>
      <p>
        Visitors get “Not found” until you publish it again.
        {editing.kind === 'draft' &&
          ' You can then publish the draft only: to bring back what visitors see ' +
            'now, you would have to discard the draft.'}
      </p>
      <DangerActions action={unpublishing} text='Unpublish' safeText='Keep it published' onClose={onClose} />
    </Dialog>
  )
}
