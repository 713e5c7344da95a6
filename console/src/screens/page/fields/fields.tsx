import type { ComponentChildren } from 'preact'
import { Button } from '../../../components/button.tsx'
import { announce } from '../../../core/announcements.tsx'
import { addValue, createEntry } from '../../../fields/edits.ts'
import { childrenOf, type Field, type GroupField, type ListField } from '../../../fields/field.ts'
import { entryLabel } from '../../../fields/find-fields.ts'
import { labelOf } from '../../../fields/labels.ts'
import { isDescriptionName, isPictureName, pictureKeyOf } from '../../../fields/pictures.ts'
import { AddEntry, AddField } from './add-field.tsx'
import { Control } from './control.tsx'
import { DescriptionNote } from './description.tsx'
import { EntryActions } from './entry-actions.tsx'
import { focusId, pathOf, reveal, setOpen, useForm, useIsArranging, useIsOpen } from './form-state.ts'
import { Heading } from './heading.tsx'
import { MemberActions } from './member-actions.tsx'
import { memo } from './memo.ts'

// The fields of a document. Groups and lists contain each other.

interface FieldRowProps {
  readonly field: Field
  readonly name: string
  /** Of the heading of a group or a list. */
  readonly level: number
  /** Whether the same member of other entries is a picture. */
  readonly isPicture?: boolean
}

/** A member of a group with its label. */
export const FieldRow = memo(({ field, name, level, isPicture = false }: FieldRowProps) => {
  const isArranging = useIsArranging()
  const label = labelOf(name)
  const actions = isArranging && <MemberActions id={field.id} name={name} />
  if (field.type === 'group') {
    return <Group field={field} name={name} level={level} actions={actions} />
  }
  if (field.type === 'list') return <List field={field} name={name} level={level} actions={actions} />
  return (
    <div class={`form-field form-field--${field.type}`}>
      <div class='form-field__head'>
        <label class='form-field__label' for={focusId(field.id)} title={name}>{label}</label>
        {actions}
      </div>
      <Control field={field} label={label} isPicture={isPicture} />
      {field.type === 'text' && isDescriptionName(label) && <DescriptionNote field={field} />}
    </div>
  )
})

interface GroupProps {
  readonly field: GroupField
  readonly name: string
  readonly level: number
  readonly actions: ComponentChildren
}

/** A group of fields with its heading. */
export function Group ({ field, name, level, actions }: GroupProps) {
  const id = focusId(field.id)
  return (
    <div class='form-group' role='group' aria-labelledby={id}>
      <div class='form-field__head'>
        <Heading level={level} id={id} title={name}>{labelOf(name)}</Heading>
        {actions}
      </div>
      <Members field={field} level={level + 1} label={labelOf(name)} />
    </div>
  )
}

interface MembersProps {
  readonly field: GroupField
  readonly level: number
  /** What the group is called. */
  readonly label: string
  /** The members that are pictures in other entries. */
  readonly pictures?: ReadonlySet<string>
}

/** The fields of a group. */
export function Members ({ field, level, label, pictures }: MembersProps) {
  const isArranging = useIsArranging()
  return (
    <div class='form-members' id={`${focusId(field.id)}-body`}>
      {field.members.map(({ name, field }) => (
        <FieldRow
          field={field}
          name={name}
          level={level}
          isPicture={pictures?.has(name) === true || isPictureName(labelOf(name))}
          key={field.id}
        />
      ))}
      {(isArranging || field.members.length === 0) && <AddField group={field} label={label} />}
    </div>
  )
}

interface ListProps {
  readonly field: ListField
  readonly name: string
  readonly level: number
  readonly actions: ComponentChildren
}

/** A list with its heading. */
export function List ({ field, name, level, actions }: ListProps) {
  const id = focusId(field.id)
  const label = labelOf(name)
  const { length } = field.entries
  return (
    <div class='form-group' role='group' aria-labelledby={id}>
      <div class='form-field__head'>
        <Heading level={level} id={id} title={name}>
          {label} <span class='form-heading__count'>{length === 1 ? '1 entry' : `${length} entries`}</span>
        </Heading>
        {actions}
      </div>
      <Entries field={field} label={label} level={level + 1} />
    </div>
  )
}

interface EntriesProps {
  readonly field: ListField
  readonly label: string
  readonly level: number
}

/** The entries of a list, and adding one. */
export function Entries ({ field, label, level }: EntriesProps) {
  const form = useForm()
  const { entries } = field
  const add = (json: string) => {
    const path = pathOf(form, field.id)
    form.model.edit(addValue(path, entries.length, json))
    announce(`Added to ${label}. ${
      entries.length === 0 ? 'There is 1' : `There are ${entries.length + 1}`
    } now.`)
    reveal(form, [...path, entries.length], true)
  }
  const pictures = picturesOf(entries)
  return (
    <>
      {entries.length > 0 && (
        <ol class='form-entries'>
          {entries.map((entry, index) => (
            <Entry
              field={entry}
              index={index}
              count={entries.length}
              label={label}
              level={level}
              pictures={pictures}
              key={entry.id}
            />
          ))}
        </ol>
      )}
      {entries.length > 0
        ? (
          <p>
            <Button onClick={() => add(createEntry(field))}>Add to {label}</Button>
          </p>
        )
        : <AddEntry label={label} onAdd={add} />}
    </>
  )
}

/** The names of members that are pictures in some entries, in one string, so that it can be compared. */
function picturesOf (entries: readonly Field[]): string {
  const names = new Set<string>()
  for (const entry of entries) {
    for (const [step, child] of childrenOf(entry)) {
      if (child.type === 'text' && pictureKeyOf(child.text) !== undefined) names.add(String(step))
    }
    if (entry.type === 'text' && pictureKeyOf(entry.text) !== undefined) names.add('')
  }
  return JSON.stringify([...names])
}

interface EntryProps {
  readonly field: Field
  readonly index: number
  readonly count: number
  /** What the list is called. */
  readonly label: string
  readonly level: number
  readonly pictures: string
}

const Entry = memo((props: EntryProps) => {
  const { field, index, label, pictures } = props
  const names = new Set(JSON.parse(pictures) as string[])
  if (field.type === 'group' || field.type === 'list') return <FoldedEntry {...props} names={names} />
  const own = `${label} ${index + 1}`
  return (
    <li class='form-entries__entry form-entries__entry--value'>
      <label class='visually-hidden' for={focusId(field.id)}>{own}</label>
      <div class='form-entries__control'>
        <Control field={field} label={own} isPicture={names.has('') || isPictureName(label)} />
      </div>
      <EntryActions {...props} own={own} />
    </li>
  )
})

/** A group or list in a list. Its fields are rendered when it is unfolded. */
function FoldedEntry (props: EntryProps & { readonly names: ReadonlySet<string> }) {
  const { field, index, level, names } = props
  const form = useForm()
  const isOpen = useIsOpen(field.id)
  const id = focusId(field.id)
  const own = entryLabel(field, index)
  const Tag = `h${Math.min(level, 6)}` as 'h3'
  return (
    <li class='form-entries__entry'>
      <div class='form-entries__head'>
        <Tag class='form-entries__heading'>
          <button
            class='form-entries__toggle'
            type='button'
            id={id}
            aria-expanded={isOpen}
            onClick={() => setOpen(form, [field.id], !isOpen)}
          >
            <bdi>{own}</bdi>
          </button>
        </Tag>
        <EntryActions {...props} own={own} />
      </div>
      {isOpen && (
        <div class='form-entries__body' role='group' aria-labelledby={id}>
          {field.type === 'group' && <Members field={field} level={level + 1} label={own} pictures={names} />}
          {field.type === 'list' && (
            <div id={`${id}-body`}>
              <Entries field={field} label={own} level={level + 1} />
            </div>
          )}
        </div>
      )}
    </li>
  )
}
