import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { LANGUAGE } from '../../components/format.tsx'
import type { Editing } from './use-editing.ts'

const FATES = {
  changed: 'The page has changed since.',
  'draft ended': 'It belonged to a draft, which was published or discarded since.',
  'draft begun': 'The page has a draft since, which is shown now.'
}

/** Asks about text that was not saved when the tab was loaded again or crashed. */
export function RestoreDialog ({ editing }: { readonly editing: Editing }) {
  const { found, fate, restore, discard } = editing.unsaved
  if (found === undefined) return null
  return (
    <Dialog
      title={`Restore what you wrote ${describeTime(found.writtenAt)}?`}
      onClose={() => {}}
      canCancel={false}
    >
      <p>It was not saved when this tab was loaded again or crashed.</p>
      {fate !== 'same' && <p>{FATES[fate]} If you restore your text, you see both versions when you save.</p>}
      <Actions>
        <Button kind='primary' onClick={restore}>Restore</Button>
        <Button kind='danger' onClick={discard}>Discard</Button>
      </Actions>
    </Dialog>
  )
}

/** Returns a time such as `at 14:02`; on another day with its date. */
function describeTime (at: number): string {
  const time = new Date(at)
  const isToday = time.toDateString() === new Date().toDateString()
  return isToday ? `at ${time.toLocaleTimeString(LANGUAGE, { timeStyle: 'short' })}`
    : `on ${time.toLocaleString(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short' })}`
}
