import { useEffect, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { formatBytes } from '../../components/format.tsx'
import { useSettings } from '../../core/settings.ts'
import type { Check } from '../../editor/editor.ts'

/** While somebody types, there is nearly always an error. Only one that stays is announced. */
const ANNOUNCED_AFTER_MS = 2000

interface EditorStatusProps {
  /** Undefined before the first check. */
  readonly check: Check | undefined
  readonly onGoTo: (offset: number) => void
  readonly onConvertLineEnds: () => void
}

/** The first error of the text or a warning, its size, and how to leave the editor. */
export function EditorStatus ({ check, onGoTo, onConvertLineEnds }: EditorStatusProps) {
  const { max_document_bytes: maxBytes } = useSettings()
  const { error, warning, byteLength = 0, hasLongLine = false, hasCarriageReturns = false } = check ?? {}
  const isTooLarge = byteLength > maxBytes
  const found = error ?? warning
  const sentence = found && `Line ${found.line}, column ${found.column}: ${found.message}`
  return (
    <div class='editor-status'>
      <p class='visually-hidden' role='status'>{useLasting(sentence)}</p>
      {found !== undefined && (
        <button
          class={error === undefined ? 'editor-status__warning' : 'editor-status__error'}
          type='button'
          onClick={() => onGoTo(found.offset)}
        >
          {sentence}
        </button>
      )}
      {hasLongLine && <p>A line is so long that lines are not wrapped. Format breaks it up.</p>}
      {hasCarriageReturns && (
        <p>
          Its lines end as on Windows, with CR and LF. That is allowed.{' '}
          <Button kind='quiet' onClick={onConvertLineEnds}>Convert line ends</Button>
        </p>
      )}
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
