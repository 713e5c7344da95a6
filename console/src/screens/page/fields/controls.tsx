import { useEffect, useRef, useState } from 'preact/hooks'
import { clearAnnouncement } from '../../../core/announcements.tsx'
import { Button } from '../../../components/button.tsx'
import { encodeText, parseNumber, replaceValue } from '../../../fields/edits.ts'
import type { OtherField } from '../../../fields/field.ts'
import { checkJson } from '../../../json/check.ts'
import { focusId, pathOf, reveal, useForm, type FormState } from './form-state.ts'

interface ControlProps {
  readonly field: OtherField
}

/** Changes the value of a field. */
export function change (form: FormState, id: number, json: string): void {
  form.model.edit(replaceValue(pathOf(form, id), json))
}

/**
 * Keeps what is typed. It goes into the document when it can be stored. Returns the attributes of the input,
 * and what is wrong with its text.
 */
function useDraft (
  { id, json }: OtherField,
  parse: (typed: string) => { json: string } | { message: string }
) {
  const form = useForm()
  const [, setCount] = useState(0)
  const draft = form.model.getDraft(id)
  const message = draft?.message
  const shown = useRef(draft)
  shown.current = draft
  // Undo forgets it, and the field stays the same.
  useEffect(() =>
    form.model.subscribe(() => {
      if (form.model.getDraft(id) !== shown.current) setCount((count) => count + 1)
    }), [id])
  const input = (text: string) => {
    const parsed = parse(text)
    if ('message' in parsed) form.model.setDraft(id, { text, message: parsed.message })
    else {
      form.model.setDraft(id, undefined)
      if (message !== undefined) clearAnnouncement() // it may have said what was wrong here
      change(form, id, parsed.json)
    }
    setCount((count) => count + 1)
  }
  const attributes = {
    id: focusId(id),
    autocomplete: 'off',
    value: draft?.text ?? json,
    'aria-invalid': message !== undefined,
    'aria-describedby': errorId(id),
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) => input(currentTarget.value),
    onBlur: () => form.model.endStep()
  }
  return { attributes, message }
}

const errorId = (id: number): string => `${focusId(id)}-error`

function FieldError ({ id, message }: { readonly id: number, readonly message: string | undefined }) {
  return <p class='form-field__error' id={errorId(id)} aria-live='polite'>{message}</p>
}

export function NumberControl ({ field }: ControlProps) {
  const { attributes, message } = useDraft(field, parseNumber)
  return (
    <>
      <input class='field__input form-field__number' inputMode='decimal' {...attributes} />
      <FieldError id={field.id} message={message} />
    </>
  )
}

/** Edits what only text can show. */
export function RawControl ({ field }: ControlProps) {
  const { attributes, message } = useDraft(field, (typed) => {
    const error = checkJson(typed, true)
    return error === undefined ? { json: typed.trim() }
      : { message: `Line ${error.line}, column ${error.column}: ${error.message}` }
  })
  return (
    <>
      <p class='field__hint'>This part can’t be shown as a form, so it is shown as it is written.</p>
      <textarea
        class='field__input form-field__raw'
        spellcheck={false}
        autocapitalize='none'
        {...attributes}
      />
      <FieldError id={field.id} message={message} />
    </>
  )
}

export function SwitchControl ({ field: { id, json } }: ControlProps) {
  const form = useForm()
  const isOn = json === 'true'
  return (
    <span class='form-field__switch'>
      <input
        id={focusId(id)}
        type='checkbox'
        role='switch'
        checked={isOn}
        onChange={({ currentTarget }) => {
          change(form, id, String(currentTarget.checked))
          form.model.endStep()
        }}
      />
      <span aria-hidden='true'>{isOn ? 'Yes' : 'No'}</span>
    </span>
  )
}

interface EmptyControlProps extends ControlProps {
  readonly label: string
}

/** A value that is null. */
export function EmptyControl ({ field: { id }, label }: EmptyControlProps) {
  const form = useForm()
  const fill = (json: string) => {
    const path = pathOf(form, id)
    change(form, id, json)
    form.model.endStep()
    reveal(form, path)
  }
  return (
    <span class='form-field__empty'>
      <output id={focusId(id)} tabIndex={-1}>Empty</output>
      <Button kind='quiet' label={`Fill in ${label}`} onClick={() => fill(encodeText(''))}>Fill in</Button>
      <Button kind='quiet' label={`Fill in a number for ${label}`} onClick={() => fill('0')}>
        Fill in a number
      </Button>
    </span>
  )
}
