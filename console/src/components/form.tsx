import type { ComponentChildren } from 'preact'

interface FormProps {
  readonly children: ComponentChildren
  readonly onSubmit: () => unknown
}

/** A form that the console sends itself. */
export function Form ({ children, onSubmit }: FormProps) {
  return (
    <form
      class='form'
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit()
      }}
    >
      {children}
    </form>
  )
}
