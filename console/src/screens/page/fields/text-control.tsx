import type { TextField } from '../../../fields/field.ts'
import { isPictureAddress } from '../../../fields/pictures.ts'
import { usePicture } from './asset-finder.ts'
import { useForm } from './form-state.ts'
import { Picture, PictureChoice } from './picture.tsx'
import { TextInput } from './text-input.tsx'

interface TextControlProps {
  readonly field: TextField
  readonly label: string
  /** Whether it may have a picture, though it has none now. */
  readonly canBePicture: boolean
}

/** A text, or the picture at the address that the text is. */
export function TextControl ({ field, label, canBePicture }: TextControlProps) {
  const { assets } = useForm()
  const { isPicture, asset } = usePicture(assets, field.text)
  if (isPicture) return <Picture field={field} label={label} asset={asset} />
  return canBePicture && isPictureAddress(field.text)
    ? (
      <PictureChoice field={field} label={label}>
        <TextInput field={field} />
      </PictureChoice>
    )
    : <TextInput field={field} />
}
