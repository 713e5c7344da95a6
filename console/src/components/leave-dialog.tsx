import type { ComponentChildren } from 'preact'
import { useCallback, useRef, useState } from 'preact/hooks'
import { useLeaveGuard, type LeaveGuard } from '../core/router.ts'
import { Button } from './button.tsx'
import { Actions, Dialog } from './dialog.tsx'

interface LeaveDialogProps {
  readonly title: string
  /** What would be lost. */
  readonly children: ComponentChildren
  readonly stay: string
  readonly leave: string
  readonly isChanged: boolean
  /** Going to another tab of this page loses nothing, so it is not asked about. */
  readonly pageId?: string
}

/** Asks before unsaved changes are lost. */
export function LeaveDialog ({ title, children, stay, leave, isChanged, pageId }: LeaveDialogProps) {
  const decide = useRef<(isLeaving: boolean) => void>(() => {})
  const [isAsking, setIsAsking] = useState(false)
  const response = (isLeaving: boolean) => {
    setIsAsking(false)
    decide.current(isLeaving)
  }
  const ask = useCallback<LeaveGuard>((wanted) => {
    if (pageId !== undefined && wanted?.[0] === 'pages' && wanted[1] === pageId) return true
    decide.current(false) // of an earlier attempt, such as a first click on Back
    setIsAsking(true)
    return new Promise((resolve) => {
      decide.current = resolve
    })
  }, [pageId])
  useLeaveGuard(isChanged ? ask : undefined)
  if (!isAsking) return null
  return (
    <Dialog title={title} onClose={() => response(false)}>
      {children}
      <Actions>
        <Button kind='primary' onClick={() => response(false)}>{stay}</Button>
        <Button kind='danger' onClick={() => response(true)}>{leave}</Button>
      </Actions>
    </Dialog>
  )
}
