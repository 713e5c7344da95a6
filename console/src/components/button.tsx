import type { ComponentChildren } from 'preact'

interface ButtonProps {
  readonly children: ComponentChildren
  readonly kind?: 'primary' | 'plain' | 'quiet' | 'danger'
  readonly type?: 'button' | 'submit'
  readonly onClick?: (() => unknown) | undefined
  readonly isDisabled?: boolean
  /** Says that it is working. The button keeps its focus. */
  readonly isBusy?: boolean
  /** The accessible name, if the text alone doesn't say what it acts on. */
  readonly label?: string
  readonly id?: string
  /** Whether it gets the focus when its dialog opens, or asks something else. */
  readonly hasAutofocus?: boolean
}

export function Button (
  {
    children,
    kind = 'plain',
    type = 'button',
    onClick,
    isDisabled = false,
    isBusy = false,
    label,
    id,
    hasAutofocus = false
  }: ButtonProps
) {
  return (
    <button
      class={`button button--${kind}`}
      type={type}
      id={id}
      autofocus={hasAutofocus}
      aria-label={label}
      aria-busy={isBusy}
      // A disabled button would lose the focus.
      aria-disabled={isDisabled || isBusy}
      onClick={(event) => {
        if (isDisabled || isBusy) event.preventDefault()
        else onClick?.()
      }}
    >
      {children}
    </button>
  )
}
