import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
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
  useEffect(() => {
    const opener = document.activeElement
    dialog.current?.showModal()
    return () => {
      // The browser returns the focus only if close() is called before the element is removed.
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus()
    }
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
