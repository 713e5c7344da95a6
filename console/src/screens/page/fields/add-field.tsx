import type { Asset } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { Actions, Dialog } from '../../../components/dialog.tsx'
import { Choice } from '../../../components/field.tsx'
import { Form } from '../../../components/form.tsx'
import { announce } from '../../../core/announcements.tsx'
import { addValue, encodeText } from '../../../fields/edits.ts'
import type { GroupField } from '../../../fields/field.ts'
import { labelOf } from '../../../fields/labels.ts'
import { AssetPicker } from '../../assets/asset-picker.tsx'
import { pathOf, reveal, useForm } from './form-state.ts'
import { NameInput, nameProblem } from './member-actions.tsx'

/** What can be added, and its JSON. A picture is chosen first. */
const KINDS = [
  ['Text', '""'],
  ['Number', '0'],
  ['Yes or no', 'false'],
  ['Picture', 'picture'],
  ['Group of fields', '{}'],
  ['List', '[]']
] as const

type Kind = (typeof KINDS)[number][1]

interface AddFieldProps {
  readonly group: GroupField
  /** What the group is called. */
  readonly label: string
}

/** Adds a field to a group. */
export function AddField ({ group, label }: AddFieldProps) {
  const form = useForm()
  const [step, setStep] = useState<'closed' | 'name' | 'picture'>('closed')
  const [name, setName] = useState('')
  const [kind, setKind] = useState<Kind>('""')
  const problem = nameProblem(group, name)
  const add = (json: string) => {
    setStep('closed')
    setName('')
    const path = pathOf(form, group.id)
    form.model.edit(addValue(path, name, json))
    form.model.endStep()
    announce(`Added: ${labelOf(name)}`)
    reveal(form, [...path, name])
  }
  const addPicture = (asset: Asset) => {
    form.assets.add(asset)
    add(encodeText(asset.url))
  }
  return (
    <p>
      <Button label={`Add a field to ${label}`} onClick={() => setStep('name')}>Add a field</Button>
      {step === 'name' && (
        <Dialog title='Add a field' onClose={() => setStep('closed')}>
          <Form
            onSubmit={() => {
              if (problem !== undefined) return
              if (kind === 'picture') setStep('picture')
              else add(kind)
            }}
          >
            <NameInput
              value={name}
              onInput={setName}
              hint='The website finds the field by this name.'
              problem={problem}
            />
            <Choice label='Kind' value={kind} options={KINDS} onChange={setKind} />
            <Actions>
              <Button type='submit' kind='primary'>Add the field</Button>
              <Button onClick={() => setStep('closed')}>Cancel</Button>
            </Actions>
          </Form>
        </Dialog>
      )}
      {step === 'picture' && <AssetPicker onPick={addPicture} onClose={() => setStep('closed')} />}
    </p>
  )
}

interface AddEntryProps {
  /** What the list is called. */
  readonly label: string
  readonly onAdd: (json: string) => void
}

/** Adds the first entry to a list. Later ones are like it. */
export function AddEntry ({ label, onAdd }: AddEntryProps) {
  const form = useForm()
  const [isPicking, setIsPicking] = useState(false)
  const [kind, setKind] = useState<Kind>('""')
  return (
    <div class='form-add-entry'>
      <Choice label={`First entry of ${label}`} value={kind} options={KINDS} onChange={setKind} />
      <Button
        label={`Add to ${label}`}
        onClick={() => kind === 'picture' ? setIsPicking(true) : onAdd(kind)}
      >
        Add
      </Button>
      {isPicking && (
        <AssetPicker
          onPick={(asset) => {
            setIsPicking(false)
            form.assets.add(asset)
            onAdd(encodeText(asset.url))
          }}
          onClose={() => setIsPicking(false)}
        />
      )}
    </div>
  )
}
