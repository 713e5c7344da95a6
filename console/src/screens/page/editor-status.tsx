import { formatBytes } from '../../components/format.tsx'
import { useSettings } from '../../core/settings.ts'
import type { Check } from '../../editor/editor.ts'

interface EditorStatusProps {
  /** Undefined before the first check. */
  readonly check: Check | undefined
  readonly onGoTo: (offset: number) => void
}

/** The first error of the text, its size, and how to leave the editor. */
export function EditorStatus ({ check, onGoTo }: EditorStatusProps) {
  const { max_document_bytes: maxBytes } = useSettings()
  const { error, byteLength = 0, hasLongLine = false } = check ?? {}
  const isTooLarge = byteLength > maxBytes
  return (
    <div class='editor-status'>
      {error !== undefined && (
        <button
          class='editor-status__error'
          type='button'
          onClick={() => onGoTo(error.offset)}
        >
          Line {error.line}, column {error.column}: {error.message}
        </button>
      )}
      {hasLongLine && <p>A line is so long that lines are not wrapped. Format breaks it up.</p>}
      <p class='editor-status__row'>
        <span class={isTooLarge ? 'editor-status__size--too-large' : undefined}>
          {check !== undefined && `${formatBytes(byteLength)} of ${formatBytes(maxBytes)}`}
          {isTooLarge && ': too large to be saved'}
        </span>
        <span>
          To leave the editor with the keyboard: <kbd>Esc</kbd>, then <kbd>Tab</kbd>
        </span>
      </p>
    </div>
  )
}
