import type { Asset } from '@landfall/client'
import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { FileButton } from '../../components/file-button.tsx'
import { useFileDrop } from '../../components/file-drop.ts'
import { useSettings } from '../../core/settings.ts'
import { AssetGrid, useAssets } from './asset-grid.tsx'
import { AssetTile } from './asset-tile.tsx'
import { UploadList } from './upload-list.tsx'
import { upload } from './uploads.ts'

/** What is looked for at first, because most assets in pages are pictures. */
const PICTURES = { type: 'image' }

interface AssetPickerProps {
  /** Called with the asset that the person has chosen. */
  readonly onPick: (asset: Asset) => void
  readonly onClose: () => void
}

/** Lets a person choose an asset, or upload one first. */
export function AssetPicker ({ onPick, onClose }: AssetPickerProps) {
  const { max_upload_bytes: maxBytes } = useSettings()
  const list = useAssets(false, PICTURES)
  const { items, query, isLoading, search, setSearch } = list
  const hasNoPictures = query === String(new URLSearchParams(PICTURES)) && items?.length === 0 &&
    !isLoading && list.missed === undefined
  const grid = useRef<HTMLDivElement>(null)
  const isOpen = useRef(true)
  useEffect(() => () => {
    isOpen.current = false
  }, [])
  const add = async (files: readonly File[]) => {
    const [asset] = await upload(files, maxBytes)
    const isWanted = asset !== undefined &&
      (search.type !== 'image' || asset.content_type.startsWith('image/'))
    // One file is what the person wants. Of several, they choose.
    if (files.length === 1 && isWanted && isOpen.current) onPick(asset)
  }
  const isDragging = useFileDrop(add)
  // The newest asset, such as one that was just uploaded, unless the person is already choosing.
  useEffect(() => {
    if (grid.current?.contains(document.activeElement) === false) {
      grid.current.querySelector<HTMLElement>('.asset-grid button')?.focus()
    }
  }, [list.items?.[0]?.id])
  return (
    <Dialog title='Choose an asset' onClose={onClose} size='large'>
      <UploadList />
      {isDragging && (
        <p class='drop-target drop-target--clear'>
          <span class='drop-target__text'>Drop a file to upload and choose it.</span>
        </p>
      )}
      <div ref={grid}>
        {hasNoPictures && (
          <p>
            You have no pictures yet. Upload one.{' '}
            <Button kind='quiet' onClick={() => setSearch({})}>Look at all types</Button>
          </p>
        )}
        {list.isEmpty && <p>You have no assets yet. Upload a file.</p>}
        {!hasNoPictures && !list.isEmpty && (
          <AssetGrid list={list}>
            {(asset) => (
              <button class='asset-grid__tile' type='button' onClick={() => onPick(asset)}>
                <AssetTile asset={asset} />
              </button>
            )}
          </AssetGrid>
        )}
      </div>
      <Actions>
        <FileButton isMultiple onChoose={add}>Upload files</FileButton>
        <Button onClick={onClose}>Cancel</Button>
      </Actions>
    </Dialog>
  )
}
