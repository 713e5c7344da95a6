import type { Action } from '../core/load.ts'
import { Button } from './button.tsx'
import { Actions } from './dialog.tsx'
import { ErrorNotice } from './error-notice.tsx'

interface DangerActionsProps {
  /** What can't be undone. */
  readonly action: Action<[]>
  /** The text of the button that does it. */
  readonly text: string
  /** The text of the button that keeps everything as it is. */
  readonly safeText?: string
  readonly onClose: () => void
}

/** The end of a dialog that asks before something is lost. The safe button has the focus. */
export function DangerActions ({ action, text, safeText = 'Cancel', onClose }: DangerActionsProps) {
  return (
    <>
      <ErrorNotice error={action.error} />
      <Actions>
        <Button kind='danger' isBusy={action.isRunning} onClick={() => action.run()}>{text}</Button>
        <Button onClick={onClose} isDisabled={action.isRunning} hasAutofocus>{safeText}</Button>
      </Actions>
    </>
  )
}
