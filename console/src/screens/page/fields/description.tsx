import { Button } from '../../../components/button.tsx'
import { fieldAt, findById, type TextField } from '../../../fields/field.ts'
import { labelOf } from '../../../fields/labels.ts'
import { describesPicture } from '../../../fields/pictures.ts'
import { pathOf, useForm, useModel, type FormState } from './form-state.ts'
import { useStore } from '../../../core/store.ts'

// A picture that is replaced has the description of the one before, until somebody writes another.

/**
 * Marks the text beside a picture that describes the picture before.
 *
 * @returns a sentence about it, to be announced; empty if there is none
 */
export function askForDescription (form: FormState, pictureId: number): string {
  const path = pathOf(form, pictureId)
  const group = fieldAt(form.model.root, path.slice(0, -1))
  const picture = fieldAt(form.model.root, path)
  if (group?.type !== 'group' || picture === undefined) return ''
  const name = labelOf(String(path.at(-1)))
  const member = group.members.find((member) =>
    member.field.type === 'text' && describesPicture(labelOf(member.name), name)
  )
  if (member === undefined) return ''
  const { id, json } = member.field
  const outdated = { json, pictureId, pictureJson: picture.json }
  form.outdated.set(new Map(form.outdated.get()).set(id, outdated))
  return ` Describe the new picture in “${labelOf(member.name)}”.`
}

/** Asks for another description, while the one of the picture before is there. */
export function DescriptionNote ({ field: { id, json, text } }: { readonly field: TextField }) {
  const form = useForm()
  useModel(form.model)
  const all = useStore(form.outdated)
  const outdated = all.get(id)
  const picture = outdated && findById(form.model.root, outdated.pictureId)?.trail.at(-1)
  // Undo brings the picture back that it describes.
  if (outdated === undefined || outdated.json !== json || picture?.json !== outdated.pictureJson) return null
  const keep = () => {
    const next = new Map(all)
    next.delete(id)
    form.outdated.set(next)
  }
  return (
    <p class='form-field__note'>
      <strong>Describe the new picture.</strong> {text !== '' && 'This is the text of the one before. '}
      <Button kind='quiet' onClick={keep}>{text === '' ? 'Leave it empty' : 'It still fits'}</Button>
    </p>
  )
}
