import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import { Button } from './button.tsx'

interface FileButtonProps {
  readonly children: ComponentChildren
  readonly onChoose: (files: readonly File[]) => unknown
  readonly kind?: 'primary' | 'plain'
  /** The file types to choose from, in the form of the attribute `accept`. */
  readonly accept?: string
  readonly isMultiple?: boolean
}

/** A button with which a person chooses files. */
export function FileButton (
  { children, onChoose, kind = 'plain', accept, isMultiple = false }: FileButtonProps
) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <Button kind={kind} onClick={() => input.current?.click()}>{children}</Button>
      <input
        ref={input}
        type='file'
        hidden
        accept={accept}
        multiple={isMultiple}
        onChange={({ currentTarget }) => {
          const files = [...currentTarget.files ?? []]
          currentTarget.value = '' // the same file can be chosen again
          if (files.length > 0) onChoose(files)
        }}
      />
    </>
  )
}
