import { useSettings } from '../../../core/settings.ts'
import type { TextField } from '../../../fields/field.ts'
import { isPictureAddress, pictureKeyOf } from '../../../fields/pictures.ts'
import { useAsset } from './asset-finder.ts'
import { useForm } from './form-state.ts'
import { Picture, PictureChoice } from './picture.tsx'
import { TextInput } from './text-input.tsx'

interface TextControlProps {
  readonly field: TextField
  readonly label: string
  /** Whether it may have a picture, though it has none now. */
  readonly isPicture: boolean
}

/** A text, or the picture at the address that the text is. */
export function TextControl ({ field, label, isPicture }: TextControlProps) {
  const { assets } = useForm()
  const { base_url: baseUrl } = useSettings()
  const { text } = field
  const asset = useAsset(assets, text)
  const folder = pictureKeyOf(text)?.folder
  const uploads = `${baseUrl.replace(/\/+$/, '')}/uploads/`
  // The policy of the console refuses pictures of others.
  if (
    asset !== undefined || (folder !== undefined && [uploads, new URL(uploads).pathname].includes(folder))
  ) {
    return <Picture field={field} label={label} asset={asset} />
  }
  return isPicture && isPictureAddress(text)
    ? (
      <PictureChoice field={field} label={label}>
        <TextInput field={field} />
      </PictureChoice>
    )
    : <TextInput field={field} />
}
