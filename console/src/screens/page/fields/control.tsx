import type { Field } from '../../../fields/field.ts'
import { EmptyControl, NumberControl, RawControl, SwitchControl } from './controls.tsx'
import { TextControl } from './text-control.tsx'

interface ControlProps {
  readonly field: Exclude<Field, { type: 'group' | 'list' }>
  readonly label: string
  readonly isPicture?: boolean
}

/** What changes a value. Its label stands beside it. */
export function Control ({ field, label, isPicture = false }: ControlProps) {
  switch (field.type) {
    case 'text':
      return <TextControl field={field} label={label} canBePicture={isPicture} />
    case 'number':
      return <NumberControl field={field} />
    case 'switch':
      return <SwitchControl field={field} />
    case 'empty':
      return <EmptyControl field={field} label={label} />
    default:
      return <RawControl field={field} />
  }
}
