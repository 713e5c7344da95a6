import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { FileButton } from '../../components/file-button.tsx'
import { useSettings } from '../../core/settings.ts'
import { useAssets } from './asset-collection.ts'
import { AssetGridSkeleton, AssetTile } from './asset-tile.tsx'
import { UploadList } from './upload-list.tsx'
import { upload } from './uploads.ts'

interface AssetPickerProps {
  /** Called with the URL of the asset that the person has chosen. */
  readonly onPick: (url: string) => void
  readonly onClose: () => void
}

/** Lets a person choose an asset, or upload one first. */
export function AssetPicker ({ onPick, onClose }: AssetPickerProps) {
  const { max_upload_bytes: maxBytes } = useSettings()
  const { assets, hasMore, isLoading, error, loadMore } = useAssets()
  const list = useRef<HTMLUListElement>(null)
  // The newest asset, such as one that was just uploaded, unless the person is already choosing.
  useEffect(() => {
    if (list.current?.contains(document.activeElement) === false) {
      list.current.querySelector('button')?.focus()
    }
  }, [assets?.[0]?.id])
  return (
    <Dialog title='Choose an asset' onClose={onClose} size='large'>
      <UploadList />
      {assets?.length === 0 && <p>You have no assets yet. Upload a file, then choose it here.</p>}
      {assets === undefined ? error === undefined && <AssetGridSkeleton />
        : (
          <ul class='asset-grid' ref={list}>
            {assets.map((asset) => (
              <li class='asset-grid__item' key={asset.id}>
                <button class='asset-grid__tile' type='button' onClick={() => onPick(asset.url)}>
                  <AssetTile asset={asset} />
                </button>
              </li>
            ))}
          </ul>
        )}
      <ErrorNotice error={error} onRetry={loadMore} retriesItself />
      <Actions>
        {hasMore && <Button isBusy={isLoading} onClick={loadMore}>Show more</Button>}
        <FileButton isMultiple onChoose={(files) => upload(files, maxBytes)}>Upload files</FileButton>
        <Button onClick={onClose}>Cancel</Button>
      </Actions>
    </Dialog>
  )
}
