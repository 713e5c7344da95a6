import { useState } from 'preact/hooks'
import { encodeText } from '../../../fields/edits.ts'
import type { TextField } from '../../../fields/field.ts'
import { change } from './controls.tsx'
import { focusId, focusSoon, useForm } from './form-state.ts'

/** Longer texts, in UTF-16 units, get several lines. */
const ONE_LINE = 80

/** A line, or several lines for a long text. */
export function TextInput ({ field: { id, text } }: { readonly field: TextField }) {
  const form = useForm()
  // Decided once: another element would lose the cursor.
  const [isLong, setIsLong] = useState(text.length > ONE_LINE || text.includes('\n'))
  const isMultiline = isLong || text.includes('\n')
  const hasCarriageReturns = text.includes('\r')
  const input = (value: string) =>
    change(form, id, encodeText(hasCarriageReturns ? value.replaceAll('\n', '\r\n') : value))
  const common = {
    id: focusId(id),
    autocomplete: 'off',
    onBlur: () => form.model.endStep()
  }
  if (isMultiline) {
    return (
      <textarea
        {...common}
        class='field__input form-field__text'
        rows={Math.min(12, Math.max(2, Math.ceil(text.length / ONE_LINE), text.split('\n').length))}
        value={text.replaceAll('\r\n', '\n')}
        onInput={({ currentTarget }) => input(currentTarget.value)}
      />
    )
  }
  return (
    <input
      {...common}
      class='field__input'
      value={text}
      onInput={({ currentTarget }) => input(currentTarget.value)}
      onPaste={(event) => {
        const pasted = event.clipboardData?.getData('text/plain') ?? ''
        if (!pasted.trim().includes('\n')) return
        // An input would remove the line breaks.
        event.preventDefault()
        const { value, selectionStart, selectionEnd } = event.currentTarget
        setIsLong(true)
        input(value.slice(0, selectionStart ?? 0) + pasted.replaceAll('\r\n', '\n') +
          value.slice(selectionEnd ?? 0))
        focusSoon(() => document.getElementById(focusId(id)))
      }}
    />
  )
}
