import { useEffect, useState } from 'preact/hooks'
import { formatBytes } from '../../components/format.tsx'
import { useSettings } from '../../core/settings.ts'
import type { Check } from '../../editor/editor.ts'

/** While somebody types, there is nearly always an error. Only one that stays is announced. */
const ANNOUNCED_AFTER_MS = 2000

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
  const sentence = error && `Line ${error.line}, column ${error.column}: ${error.message}`
  return (
    <div class='editor-status'>
      <p class='visually-hidden' role='status'>{useLasting(sentence)}</p>
      {error !== undefined && (
        <button
          class='editor-status__error'
          type='button'
          onClick={() => onGoTo(error.offset)}
        >
          {sentence}
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

/** Returns a text when it has been the same for some time. */
function useLasting (text: string | undefined): string | undefined {
  const [lasting, setLasting] = useState<string>()
  useEffect(() => {
    setLasting(undefined)
    const timer = setTimeout(() => setLasting(text), ANNOUNCED_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return lasting
}
