import { useCallback, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { useLeaveGuard, type LeaveGuard } from '../../core/router.ts'

interface LeaveDialogProps {
  readonly pageId: string
  readonly isChanged: boolean
}

/** Asks before unsaved changes are lost. The tabs of the page keep them. */
export function LeaveDialog ({ pageId, isChanged }: LeaveDialogProps) {
  const decide = useRef<(isLeaving: boolean) => void>(() => {})
  const [isAsking, setIsAsking] = useState(false)
  const answer = (isLeaving: boolean) => {
    setIsAsking(false)
    decide.current(isLeaving)
  }
  const ask = useCallback<LeaveGuard>(async (wanted) => {
    if (wanted?.[0] === 'pages' && wanted[1] === pageId) return true
    decide.current(false) // of an earlier attempt, such as a first click on Back
    setIsAsking(true)
    return await new Promise((resolve) => {
      decide.current = resolve
    })
  }, [pageId])
  useLeaveGuard(isChanged ? ask : undefined)
  if (!isAsking) return null
  return (
    <Dialog title='Leave without saving?' onClose={() => answer(false)}>
      <p>Your changes to this page are not saved.</p>
      <Actions>
        <Button kind='primary' onClick={() => answer(false)}>Stay here</Button>
        <Button kind='danger' onClick={() => answer(true)}>Leave without saving</Button>
      </Actions>
    </Dialog>
  )
}
