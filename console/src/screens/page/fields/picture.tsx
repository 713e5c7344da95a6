import { srcset, type Asset } from '@landfall/client'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { CopyButton } from '../../../components/copy-button.tsx'
import { formatBytes } from '../../../components/format.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useSettings } from '../../../core/settings.ts'
import { useStore } from '../../../core/store.ts'
import { encodeText } from '../../../fields/edits.ts'
import type { TextField } from '../../../fields/field.ts'
import { AssetPicker } from '../../assets/asset-picker.tsx'
import { UploadRows } from '../../assets/upload-list.tsx'
import { onUploaded, upload, uploadsStore } from '../../assets/uploads.ts'
import { change } from './controls.tsx'
import { askForDescription } from './description.tsx'
import { focusId, useForm } from './form-state.ts'
import { PictureImage } from './picture-image.tsx'
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
            <PictureImage address={field.text} asset={asset} />
          </div>
          <div class='form-picture__facts'>
            <bdi class='form-picture__name'>{name}</bdi>
            {asset?.width != null && asset.height !== null && (
              <span class='quiet'>{asset.width} × {asset.height}, {formatBytes(asset.byte_size)}</span>
            )}
            <div class='form-picture__actions'>
              {choose(`Replace ${label}`, 'Replace', !isText)}
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
              {sizes !== '' && <CopyButton text={sizes} what='srcset' isNamed />}
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
  /** The file that was dropped or pasted last. */
  const file = useRef<File | undefined>(undefined)
  const uploads = useStore(uploadsStore).filter((upload) => upload.file === file.current)
  const isUploading = uploads.some(({ status }) => status !== 'failed')
  const take = (asset: Asset) => {
    form.assets.add(asset)
    form.model.endStep()
    change(form, field.id, encodeText(asset.url))
    form.model.endStep()
    const description = asset.url === field.text ? '' : askForDescription(form, field.id)
    announce(`${label} is now ${asset.filename}.${description} It is not saved yet.`)
  }
  const latestTake = useRef(take)
  latestTake.current = take
  useEffect(() => onUploaded((asset, of) => of === file.current && latestTake.current(asset)), [])
  /** Takes the picture of a drop or of the clipboard, if there is one. */
  const takeFile = (event: Event, data: DataTransfer | null) => {
    const found = [...data?.files ?? []].find(({ type }) => type.startsWith('image/'))
    // The dialog takes it.
    if (found === undefined || isPicking) return
    event.preventDefault()
    file.current = found
    upload([found], maxBytes)
  }
  const choose = (name: string, text: string, isTarget: boolean) => (
    <Button
      label={name}
      isBusy={isUploading}
      {...isTarget ? { id: focusId(field.id) } : {}}
      onClick={() => setIsPicking(true)}
    >
      {isUploading ? 'Uploading …' : text}
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
      {uploads.length > 0 && <UploadRows uploads={uploads} />}
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
