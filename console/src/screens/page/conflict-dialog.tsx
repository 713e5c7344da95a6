import { useEffect } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Comparison } from './comparison.tsx'
import { SavedBy } from './saved-by.tsx'
import type { Conflict, Editing } from './use-editing.ts'

/** Lets the person choose between two versions that are based on the same one. */
export function ConflictDialog ({ editing }: { readonly editing: Editing }) {
  const { conflict, running, error, publication, keepMine, keepMineAsDraft, takeTheirs, postpone, views } =
    editing
  const isAsking = conflict !== undefined
  useEffect(() => {
    // Closing the dialog returns the focus to where it was, such as Save. It belongs in the editor.
    if (isAsking) return () => views.getShown()?.focus()
  }, [isAsking])
  if (conflict === undefined) return null
  const { kind, mine, theirs, wasPublished } = conflict
  const isPublishedSince = kind === 'document' && publication.published && !wasPublished
  const isSaving = running !== undefined
  return (
    <Dialog
      title={isPublishedSince ? 'This page was published since you opened it'
        : 'This page has changed since you opened it'}
      size='large'
      onClose={postpone}
      canCancel={!isSaving}
    >
      {isPublishedSince ? (
        <p>
          Visitors see this version, saved{' '}
          <SavedBy saved={theirs.saved} />. Yours is not saved yet: choose who sees it.
        </p>
      ) : (
        <p>
          {theirs.kind === 'draft' ? 'Another draft' : 'Another version'} was saved{' '}
          <SavedBy saved={theirs.saved} />. Nothing of yours is lost: choose what to save. {fateOf(conflict)}
        </p>
      )}
      <Comparison
        before={{ text: theirs.text, label: isPublishedSince ? 'What visitors see' : 'The other version' }}
        after={{ text: mine, label: 'Your version' }}
        isCodeFirst={views.shown === 'text'}
        // After another conflict, the other version is another one.
        key={theirs.etag}
      />
      <ErrorNotice error={error} />
      <Actions>
        {isPublishedSince ? (
          <>
            <Button kind='primary' isBusy={running === 'draft'} onClick={keepMineAsDraft}>
              Save as a draft
            </Button>
            <Button isBusy={running === 'save'} onClick={keepMine}>Save and show to visitors</Button>
          </>
        ) : (
          <>
            <Button kind='primary' isBusy={isSaving} onClick={keepMine}>Save my version</Button>
            <Button isDisabled={isSaving} onClick={takeTheirs}>Take the other version</Button>
          </>
        )}
        <Button isDisabled={isSaving} onClick={postpone}>Go on editing</Button>
      </Actions>
    </Dialog>
  )
}

/** What becomes of the two versions. */
function fateOf ({ kind, theirs }: Conflict): string {
  if (kind === 'document') return 'A version that is replaced stays in the history.'
  return theirs.kind === 'draft' ? 'A draft that is replaced is gone.' : 'Yours becomes a draft.'
}
