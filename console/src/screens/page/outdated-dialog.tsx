import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Comparison } from './comparison.tsx'
import { SavedBy } from './saved-by.tsx'
import type { Editing } from './use-editing.ts'

/** Asks before a draft replaces a version that its author may not know. */
export function OutdatedDialog ({ editing }: { readonly editing: Editing }) {
  const { outdated, running, error, publishAnyway, postpone, views } = editing
  if (outdated === undefined) return null
  const { mine, theirs } = outdated
  const isRunning = running !== undefined
  return (
    <Dialog
      title='The page has changed since this draft was begun'
      size='large'
      onClose={postpone}
      canCancel={!isRunning}
    >
      <p>
        Another version was saved{' '}
        <SavedBy saved={theirs.saved} />. The draft doesn’t have that change and would replace it. To keep
        both, go on editing, and make the change in the draft, too. A version that is replaced stays in the
        history.
      </p>
      <Comparison
        before={{ text: theirs.text, label: 'The other version' }}
        after={{ text: mine, label: 'The draft' }}
        ignoresSpace
        isCodeFirst={views.shown === 'text'}
        key={theirs.etag}
      />
      <ErrorNotice error={error} />
      <Actions>
        <Button isDisabled={isRunning} onClick={postpone} hasAutofocus>Go on editing</Button>
        <Button kind='danger' isBusy={isRunning} onClick={publishAnyway}>Publish anyway</Button>
      </Actions>
    </Dialog>
  )
}
