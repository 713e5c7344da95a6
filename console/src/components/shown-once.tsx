import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { CopyButton } from './copy-button.tsx'

interface ShownOnceProps {
  readonly text: string
  /** What it is, such as `key`. */
  readonly what: string
  /** What else can be done with it. */
  readonly children?: ComponentChildren
}

/** Something secret that is shown only this once, to be copied. */
export function ShownOnce ({ text, what, children }: ShownOnceProps) {
  const notice = useRef<HTMLParagraphElement>(null)
  useEffect(() => notice.current?.focus(), []) // the button that had the focus is gone
  return (
    <>
      <p ref={notice} tabIndex={-1}>Copy the {what} now. It is shown only this once.</p>
      <p class='copyable'>
        <code>{text}</code>
        <CopyButton text={text} what={what} />
        {children}
      </p>
    </>
  )
}
