import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

interface ScreenProps {
  readonly title: string
  /** What can be done on this screen, beside its title. */
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
  /** Whether the first field gets the focus, instead of the title. */
  readonly startsInField?: boolean
}

let isFirst = true

/** A screen with its title. A new screen gets the focus, so that screen readers say its title. */
export function Screen ({ title, actions, children, startsInField = false }: ScreenProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} – Landfall`
  }, [title])
  useEffect(() => {
    const field = startsInField ? document.querySelector<HTMLInputElement>('main input') : null
    if (field !== null) field.focus()
    else if (!isFirst) heading.current?.focus({ preventScroll: true })
    isFirst = false
  }, [])
  return (
    <>
      <div class='screen__head'>
        <h1 class='screen__title' ref={heading} tabIndex={-1}>{title}</h1>
        {actions !== undefined && <div class='screen__actions'>{actions}</div>}
      </div>
      {children}
    </>
  )
}
