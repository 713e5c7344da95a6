import { Button } from '../../../components/button.tsx'
import { Choice, Field } from '../../../components/field.tsx'
import { findLabel, nameOf } from '../../../core/labels.ts'
import { useList } from '../../../core/list.ts'
import { useLoad } from '../../../core/load.ts'
import { landfall } from '../../../core/service.ts'

/** Pages that a search shows. */
const FOUND = 8

interface PagesChoiceProps {
  /** The ids of the chosen pages; null for all pages. */
  readonly pages: readonly string[] | null
  readonly onChange: (pages: string[] | null) => void
  readonly error: string | undefined
}

/** Chooses all pages, or some of them. */
export function PagesChoice ({ pages, onChange, error }: PagesChoiceProps) {
  return (
    <>
      <Choice
        label='About'
        value={pages === null}
        options={[['All pages', true], ['Only some pages', false]]}
        onChange={(isAll) => onChange(isAll ? null : [])}
      />
      {pages !== null && (
        <>
          {pages.length > 0 && (
            <ul class='webhook-pages' aria-label='Chosen pages'>
              {pages.map((id) => (
                <ChosenPage
                  id={id}
                  onRemove={() => onChange(pages.filter((one) => one !== id))}
                  key={id}
                />
              ))}
            </ul>
          )}
          <PageSearch chosen={pages} onPick={(id) => onChange([...pages, id])} />
        </>
      )}
      {error !== undefined && <p class='field__error' role='alert'>{error}</p>}
    </>
  )
}

interface ChosenPageProps {
  readonly id: string
  readonly onRemove: () => void
}

function ChosenPage ({ id, onRemove }: ChosenPageProps) {
  const { data, error } = useLoad(async (signal) => await landfall.landingPages.get(id, { signal }), [id])
  const name = data === undefined ? error === undefined ? 'Loading …' : `Not found: ${id}`
    : nameOf(findLabel(JSON.stringify(data.current_data)), data.public_id)
  return (
    <li class='webhook-pages__page'>
      <bdi>{name}</bdi>
      <Button kind='quiet' label={`Remove ${name}`} onClick={onRemove}>Remove</Button>
    </li>
  )
}

interface PageSearchProps {
  readonly chosen: readonly string[]
  readonly onPick: (id: string) => void
}

function PageSearch ({ chosen, onPick }: PageSearchProps) {
  const { items = [], search, setSearch } = useList(landfall.landingPages.summariesPage, FOUND, false)
  return (
    <div
      class='field'
      onKeyDown={(event) => {
        // Enter would send the form.
        if (event.key === 'Enter' && event.target instanceof HTMLInputElement) event.preventDefault()
      }}
    >
      <Field
        label='Find a page by its name or public id'
        type='search'
        value={search.q ?? ''}
        onInput={(q) => setSearch({ q })}
      />
      <ul class='webhook-pages' aria-label='Found pages'>
        {items.filter(({ id }) => !chosen.includes(id)).map(({ id, label, public_id: publicId }) => (
          <li class='webhook-pages__page' key={id}>
            <bdi>{nameOf(label, publicId)}</bdi>
            <Button
              kind='quiet'
              label={`Add ${nameOf(label, publicId)}`}
              onClick={() =>
                onPick(id)}
            >
              Add
            </Button>
          </li>
        ))}
      </ul>
    </div>
  )
}
