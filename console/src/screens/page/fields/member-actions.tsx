import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { Actions, Dialog } from '../../../components/dialog.tsx'
import { Field as Input } from '../../../components/field.tsx'
import { Form } from '../../../components/form.tsx'
import { announce } from '../../../core/announcements.tsx'
import { renameMember } from '../../../fields/edits.ts'
import { fieldAt, type GroupField } from '../../../fields/field.ts'
import { labelOf } from '../../../fields/labels.ts'
import { pathOf, reveal, useForm } from './form-state.ts'
import { remove } from './entry-actions.tsx'

interface MemberActionsProps {
  readonly id: number
  readonly name: string
}

/** Renames or removes a field. */
export function MemberActions ({ id, name }: MemberActionsProps) {
  const form = useForm()
  const [isRenaming, setIsRenaming] = useState(false)
  const label = labelOf(name)
  return (
    <span class='form-field__actions'>
      <code class='form-field__name'>{name}</code>
      <Button kind='quiet' label={`Rename ${label}`} onClick={() => setIsRenaming(true)}>Rename</Button>
      <Button kind='quiet' label={`Remove ${label}`} onClick={() => remove(form, id, label)}>Remove</Button>
      {isRenaming && <RenameDialog id={id} name={name} onClose={() => setIsRenaming(false)} />}
    </span>
  )
}

function RenameDialog ({ id, name, onClose }: MemberActionsProps & { readonly onClose: () => void }) {
  const form = useForm()
  const [next, setNext] = useState(name)
  const parent = pathOf(form, id).slice(0, -1)
  const group = fieldAt(form.model.root, parent) as GroupField
  const problem = next === name ? undefined : nameProblem(group, next)
  return (
    <Dialog title={`Rename “${labelOf(name)}”`} onClose={onClose}>
      <Form
        onSubmit={() => {
          if (problem !== undefined) return
          onClose()
          if (next === name) return
          form.model.edit(renameMember(group, parent, name, next))
          announce(`Renamed: ${labelOf(next)}`)
          reveal(form, [...parent, next])
        }}
      >
        <NameInput
          value={next}
          onInput={setNext}
          hint='The website finds this field by its name, so it has to know the new one.'
          problem={problem}
        />
        <Actions>
          <Button type='submit' kind='primary'>Rename</Button>
          <Button onClick={onClose}>Cancel</Button>
        </Actions>
      </Form>
    </Dialog>
  )
}

interface NameInputProps {
  readonly value: string
  readonly onInput: (name: string) => void
  readonly hint: string
  /** Why a field can't have this name. */
  readonly problem: string | undefined
}

/** Takes the name of a field. */
export function NameInput ({ problem, ...rest }: NameInputProps) {
  return (
    <>
      <Input label='Name' isRequired hasAutofocus {...rest} />
      {problem !== undefined && <p class='form-field__error' role='alert'>{problem}</p>}
    </>
  )
}

/** Returns a sentence that says why a new field of a group can't have a name; undefined if it can. */
export const nameProblem = (group: GroupField, name: string): string | undefined =>
  group.members.some((member) => member.name === name) ? 'There is a field of this name already.' : undefined
