import { useId, useMemo, useState } from 'preact/hooks'
import { findFields, type FoundField } from '../../../fields/find-fields.ts'
import { reveal, useForm } from './form-state.ts'

const MAX_FOUND = 12

/** Finds a field by its words, and goes there. */
export function FieldSearch () {
  const form = useForm()
  const id = useId()
  const [query, setQuery] = useState('')
  const { root } = form.model
  const found = useMemo(() => findFields(root, query, MAX_FOUND), [root, query])
  const isAsking = query.trim() !== ''
  const goTo = ({ path }: FoundField) => {
    setQuery('')
    reveal(form, path)
  }
  return (
    <div
      class='field-search'
      role='search'
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !isAsking) return
        setQuery('')
        document.getElementById(id)?.focus()
      }}
    >
      <input
        class='field__input'
        id={id}
        type='search'
        aria-label='Find a field'
        placeholder='Find a field'
        autocomplete='off'
        spellcheck={false}
        value={query}
        onInput={({ currentTarget }) => setQuery(currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = found
          if (event.key !== 'Enter' || first === undefined) return
          event.preventDefault()
          goTo(first)
        }}
      />
      <p class='visually-hidden' role='status'>
        {isAsking && (found.length === 1 ? '1 field found' : `${found.length} fields found`)}
      </p>
      {isAsking && (
        <div class='field-search__results'>
          {found.length === 0 && <p class='quiet'>No field has these words.</p>}
          <ul class='field-search__list'>
            {found.map((field) => (
              <li key={JSON.stringify(field.path)}>
                <button class='field-search__result' type='button' onClick={() => goTo(field)}>
                  <span class='field-search__label'>{field.labels.join(' › ')}</span>{' '}
                  <bdi class='quiet'>{field.value}</bdi>
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  )
}
