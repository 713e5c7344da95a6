import { useEffect } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Time } from '../../components/format.tsx'
import { Comparison } from './comparison.tsx'
import type { Editing } from './use-editing.ts'

/** Lets the person choose between two versions that are based on the same one. */
export function ConflictDialog ({ editing }: { readonly editing: Editing }) {
  const { conflict, isSaving, error, keepMine, takeTheirs, postpone, views } = editing
  const isAsking = conflict !== undefined
  useEffect(() => {
    // The dialog has given the focus back by then, perhaps to the button that saves.
    if (isAsking) return () => views.getShown()?.focus()
  }, [isAsking])
  if (conflict === undefined) return null
  return (
    <Dialog
      title='This page has changed since you opened it'
      size='large'
      onClose={postpone}
      canCancel={!isSaving}
    >
      <p>
        {conflict.revision === undefined ? 'Another version was saved in the meantime.' : (
          <>
            Another version was saved <Time at={conflict.revision.created_at} /> by{' '}
            <bdi>{conflict.revision.author.name}</bdi>.
          </>
        )} Nothing of yours is lost: choose what to save. A version that is replaced stays in the history.
      </p>
      <Comparison
        before={{ text: conflict.theirs.text, label: 'The other version' }}
        after={{ text: conflict.mine, label: 'Your version' }}
        // After another conflict, the other version is another one.
        key={conflict.theirs.etag}
      />
      <ErrorNotice error={error} />
      <Actions>
        <Button kind='primary' isBusy={isSaving} onClick={keepMine}>Save my version</Button>
        <Button isDisabled={isSaving} onClick={takeTheirs}>Take the other version</Button>
        <Button isDisabled={isSaving} onClick={postpone}>Go on editing</Button>
      </Actions>
    </Dialog>
  )
}
