import { Button } from '../../../components/button.tsx'
import { announce } from '../../../core/announcements.tsx'
import { moveEntry, removeValue } from '../../../fields/edits.ts'
import type { Field } from '../../../fields/field.ts'
import { nearestPath } from '../../../fields/fields-model.ts'
import { focusId, focusSoon, pathOf, reveal, useForm, type FormState } from './form-state.ts'

interface EntryActionsProps {
  readonly field: Field
  readonly index: number
  readonly count: number
  /** What the entry is called. */
  readonly own: string
}

/** Moves or removes an entry of a list. */
export function EntryActions ({ field, index, count, own }: EntryActionsProps) {
  const form = useForm()
  const move = (to: number) => {
    if (to < 0 || to >= count) return
    form.model.edit(moveEntry(pathOf(form, field.id).slice(0, -1), index, to))
    announce(`${own} is now ${to + 1} of ${count}.`)
    const button = `${focusId(field.id)}-${to < index ? 'up' : 'down'}`
    // Its element has moved, too, which takes the focus away.
    focusSoon(() => document.getElementById(button))
  }
  return (
    <div class='form-entries__actions'>
      <Button
        kind='quiet'
        id={`${focusId(field.id)}-up`}
        label={`Move ${own} up`}
        isDisabled={index === 0}
        onClick={() => move(index - 1)}
      >
        ↑
      </Button>
      <Button
        kind='quiet'
        id={`${focusId(field.id)}-down`}
        label={`Move ${own} down`}
        isDisabled={index === count - 1}
        onClick={() => move(index + 1)}
      >
        ↓
      </Button>
      <Button kind='quiet' label={`Remove ${own}`} onClick={() => remove(form, field.id, own)}>
        <span class='form-entries__remove'>Remove</span>
        <span class='form-entries__cross'>✕</span>
      </Button>
    </div>
  )
}

/** Removes a field. The focus moves to its neighbour. */
export function remove (form: FormState, id: number, label: string): void {
  const path = pathOf(form, id)
  form.model.edit(removeValue(path))
  announce(`Removed: ${label}. Undo brings it back.`)
  reveal(form, nearestPath(form.model.root, path))
}
