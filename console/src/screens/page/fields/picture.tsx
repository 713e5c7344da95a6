import { srcset, type Asset } from '@landfall/client'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { CopyButton } from '../../../components/copy-button.tsx'
import { ErrorNotice } from '../../../components/error-notice.tsx'
import { formatBytes } from '../../../components/format.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useAction } from '../../../core/load.ts'
import { landfall } from '../../../core/service.ts'
import { useSettings } from '../../../core/settings.ts'
import { encodeText } from '../../../fields/edits.ts'
import type { TextField } from '../../../fields/field.ts'
import { AssetPicker } from '../../assets/asset-picker.tsx'
import { Thumbnail } from '../../assets/thumbnail.tsx'
import { change } from './controls.tsx'
import { focusId, useForm } from './form-state.ts'
import { TextInput } from './text-input.tsx'

interface PictureProps {
  readonly field: TextField
  readonly label: string
  /** Undefined while it isn't known. */
  readonly asset: Asset | undefined
}

/** A picture that can be replaced. */
export function Picture ({ field, label, asset }: PictureProps) {
  const [isText, setIsText] = useState(false)
  const name = asset?.filename ?? 'Picture'
  const sizes = asset === undefined ? '' : srcset(asset)
  return (
    <PictureDrop field={field} label={label}>
      {(choose) => (
        <div class='form-picture'>
          <div class='form-picture__image'>
            {asset === undefined ? <img class='thumbnail' alt='' loading='lazy' src={field.text} />
              : <Thumbnail asset={asset} sizes='10rem' />}
          </div>
          <div class='form-picture__facts'>
            <bdi class='form-picture__name'>{name}</bdi>
            {asset?.width != null && asset.height !== null && (
              <span class='quiet'>{asset.width} × {asset.height}, {formatBytes(asset.byte_size)}</span>
            )}
            <div class='form-picture__actions'>
              {choose(`Replace ${label}`, 'Replace', !isText)}
              {sizes !== '' && <CopyButton text={sizes} what='srcset' isNamed />}
              <Button
                kind='quiet'
                label={`${isText ? 'Hide' : 'Show'} the address of ${label}`}
                onClick={() => setIsText(!isText)}
              >
                {isText ? 'Hide the address' : 'Address'}
              </Button>
            </div>
          </div>
          {isText && (
            <div class='form-picture__address'>
              <TextInput field={field} />
            </div>
          )}
        </div>
      )}
    </PictureDrop>
  )
}

interface PictureChoiceProps {
  readonly field: TextField
  readonly label: string
  readonly children: ComponentChildren
}

/** A text that may become a picture. */
export function PictureChoice ({ field, label, children }: PictureChoiceProps) {
  return (
    <PictureDrop field={field} label={label}>
      {(choose) => (
        <div class='form-picture-choice'>
          {children}
          {choose(`Choose a picture for ${label}`, 'Choose a picture', false)}
        </div>
      )}
    </PictureDrop>
  )
}

interface PictureDropProps {
  readonly field: TextField
  readonly label: string
  /** Gets a function that renders the button with which a picture is chosen. */
  readonly children: (
    choose: (label: string, text: string, isTarget: boolean) => ComponentChildren
  ) => ComponentChildren
}

/** Takes a picture that is chosen, dropped or pasted. */
function PictureDrop ({ field, label, children }: PictureDropProps) {
  const form = useForm()
  const { max_upload_bytes: maxBytes } = useSettings()
  const [isPicking, setIsPicking] = useState(false)
  const [isOver, setIsOver] = useState(false)
  const take = (asset: Asset) => {
    form.assets.add(asset)
    form.model.endStep()
    change(form, field.id, encodeText(asset.url))
    form.model.endStep()
    announce(`${label} is now ${asset.filename}. It is not saved yet.`)
  }
  const uploading = useAction(async (file: File) => {
    if (file.size > maxBytes) throw new Error(`A file can have at most ${formatBytes(maxBytes)}.`)
    take(await landfall.assets.upload(file))
  })
  /** Takes the picture of a drop or of the clipboard, if there is one. */
  const takeFile = (event: Event, data: DataTransfer | null) => {
    const file = [...data?.files ?? []].find(({ type }) => type.startsWith('image/'))
    if (file === undefined) return
    event.preventDefault()
    uploading.run(file)
  }
  const choose = (name: string, text: string, isTarget: boolean) => (
    <Button
      label={name}
      isBusy={uploading.isRunning}
      {...isTarget ? { id: focusId(field.id) } : {}}
      onClick={() => setIsPicking(true)}
    >
      {uploading.isRunning ? 'Uploading …' : text}
    </Button>
  )
  return (
    <div
      class={isOver ? 'form-picture-drop form-picture-drop--over' : 'form-picture-drop'}
      onDragOver={(event) => {
        if (event.dataTransfer?.types.includes('Files') !== true) return
        event.preventDefault()
        setIsOver(true)
      }}
      onDragLeave={(event) => {
        if (!(event.relatedTarget instanceof Node) || !event.currentTarget.contains(event.relatedTarget)) {
          setIsOver(false)
        }
      }}
      onDrop={(event) => {
        setIsOver(false)
        takeFile(event, event.dataTransfer)
      }}
      onPaste={(event) => takeFile(event, event.clipboardData)}
    >
      {children(choose)}
      <ErrorNotice error={uploading.error} />
      {isPicking && (
        <AssetPicker
          onPick={(asset) => {
            setIsPicking(false)
            take(asset)
          }}
          onClose={() => setIsPicking(false)}
        />
      )}
    </div>
  )
}
