import type { ComponentChildren } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Announcements } from '../core/announcements.tsx'

interface DialogProps {
  readonly title: string
  readonly children: ComponentChildren
  /** Closes it: Escape, or a button of the dialog. */
  readonly onClose: () => void
  readonly size?: 'normal' | 'large'
  /** Whether Escape closes it. Default true. */
  readonly canCancel?: boolean
}

/** A modal dialog. While it is shown, the focus stays in it; afterwards, it returns to where it was. */
export function Dialog ({ title, children, onClose, size = 'normal', canCancel = true }: DialogProps) {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  // close() returns the focus, also into an editor, but only before the element is removed. useEffect would
  // call it afterwards.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  // Another title is another question.
  useEffect(() => dialog.current?.querySelector<HTMLElement>('[autofocus]')?.focus(), [title])
  return (
    <dialog
      class={`dialog dialog--${size}`}
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        // Cancelling the choice of a file raises this event, too, and it bubbles.
        if (event.target !== event.currentTarget) return
        event.preventDefault()
        if (canCancel && event.cancelable) onClose()
      }}
      // After a few Escapes in a row, browsers close a dialog even if the page prevents it.
      onClose={({ currentTarget }) => {
        if (!currentTarget.isConnected) return
        currentTarget.showModal()
        if (canCancel) onClose()
      }}
    >
      <h2 class='dialog__title' id={id}>{title}</h2>
      {children}
      <Announcements />
    </dialog>
  )
}

/** The buttons at the end of a dialog or of a form. */
export function Actions ({ children }: { readonly children: ComponentChildren }) {
  return <div class='actions'>{children}</div>
}
