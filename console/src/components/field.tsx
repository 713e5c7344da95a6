import { useId, useState } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly value: string
  readonly onInput: (value: string) => void
  readonly type?: 'text' | 'email' | 'password' | 'search'
  readonly autocomplete?: string
  readonly hint?: string
  /** What the service says is wrong with the value. */
  readonly error?: string | undefined
  readonly isRequired?: boolean
  readonly isReadOnly?: boolean
  readonly maxLength?: number
  /** Whether a dialog that is opened gives it the focus. */
  readonly hasAutofocus?: boolean
}

/** An input with its label and, below it, a hint. */
export function Field (
  {
    label,
    value,
    onInput,
    type = 'text',
    autocomplete = 'off',
    hint,
    error,
    isRequired = false,
    isReadOnly = false,
    maxLength,
    hasAutofocus = false
  }: FieldProps
) {
  const id = useId()
  const [isRefused, setIsRefused] = useState(false)
  return (
    <div class='field'>
      <label class='field__label' for={id}>{label}</label>
      <input
        class='field__input'
        id={id}
        type={type as 'text'}
        value={value}
        required={isRequired}
        readOnly={isReadOnly}
        maxLength={maxLength}
        autocomplete={autocomplete}
        spellcheck={false}
        autofocus={hasAutofocus}
        autocapitalize='none'
        aria-describedby={[hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') ||
          undefined}
        aria-invalid={isRefused || error !== undefined}
        // The browser says what is wrong, for example that the field is empty.
        onInvalid={() => setIsRefused(true)}
        onInput={({ currentTarget }) => {
          setIsRefused(false)
          onInput(currentTarget.value)
        }}
      />
      {error !== undefined && <p class='field__error' role='alert' id={`${id}-error`}>{error}</p>}
      {hint !== undefined && <p class='field__hint' id={`${id}-hint`}>{hint}</p>}
    </div>
  )
}

interface ChoiceProps<Value> {
  readonly label: string
  readonly value: Value
  readonly options: readonly (readonly [text: string, value: Value])[]
  readonly onChange: (value: Value) => void
}

/** A choice of one value, with its label. */
export function Choice<Value> ({ label, value, options, onChange }: ChoiceProps<Value>) {
  const id = useId()
  return (
    <div class='field'>
      <label class='field__label' for={id}>{label}</label>
      <select
        class='field__input'
        id={id}
        onChange={({ currentTarget }) =>
          onChange((options[currentTarget.selectedIndex] as [string, Value])[1])}
      >
        {options.map(([text, option]) => <option selected={option === value} key={text}>{text}</option>)}
      </select>
    </div>
  )
}

interface ChoicesProps<Value> {
  readonly label: string
  readonly options: readonly (readonly [value: Value, text: string])[]
  readonly chosen: readonly Value[]
  readonly onChange: (chosen: readonly Value[]) => void
  readonly error?: string | undefined
}

/** A choice of several values, with its label. */
export function Choices<Value extends string> (
  { label, options, chosen, onChange, error }: ChoicesProps<Value>
) {
  return (
    <fieldset class='choices'>
      <legend class='field__label'>{label}</legend>
      {options.map(([value, text]) => (
        <label class='choices__choice' key={value}>
          <input
            type='checkbox'
            checked={chosen.includes(value)}
            onChange={({ currentTarget }) =>
              onChange(currentTarget.checked ? [...chosen, value] : chosen.filter((one) => one !== value))}
          />
          {text}
        </label>
      ))}
      {error !== undefined && <p class='field__error' role='alert'>{error}</p>}
    </fieldset>
  )
}
