import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { FileButton } from '../../components/file-button.tsx'
import { useFileDrop } from '../../components/file-drop.ts'
import { formatBytes } from '../../components/format.tsx'
import { useGrowingList } from '../../components/growing-list.ts'
import { Screen } from '../../components/screen.tsx'
import { href } from '../../core/router.ts'
import { useSettings } from '../../core/settings.ts'
import { useAssets } from './asset-collection.ts'
import { AssetGridSkeleton, AssetTile } from './asset-tile.tsx'
import { UploadList } from './upload-list.tsx'
import { upload } from './uploads.ts'

/** All files of the account, and uploading. */
export function AssetsList () {
  const { max_upload_bytes: maxBytes } = useSettings()
  const { assets, hasMore, isLoading, error, loadMore } = useAssets()
  const addFiles = (files: readonly File[]) => upload(files, maxBytes)
  const { ref, focusNext } = useGrowingList(assets?.length ?? 0)
  const isDragging = useFileDrop(addFiles)
  const isEmpty = assets?.length === 0
  return (
    <Screen
      title='Assets'
      actions={<FileButton kind='primary' isMultiple onChoose={addFiles}>Upload files</FileButton>}
    >
      <UploadList />
      {isEmpty && (
        <div class='empty'>
          <h2>Upload your first file</h2>
          <p>
            Pictures and other files get a public URL, which you use in your pages. Pictures also get smaller
            copies.
          </p>
          <p class='quiet'>
            Choose files with the button above, or drop them here. Each can have up to{' '}
            {formatBytes(maxBytes)}.
          </p>
        </div>
      )}
      {assets === undefined ? error === undefined && <AssetGridSkeleton />
        : (
          <ul class='asset-grid' ref={ref}>
            {assets.map((asset) => (
              <li class='asset-grid__item' key={asset.id}>
                <a class='asset-grid__tile' href={href('assets', asset.id)}>
                  <AssetTile asset={asset} />
                </a>
              </li>
            ))}
          </ul>
        )}
      <ErrorNotice error={error} onRetry={loadMore} retriesItself />
      {hasMore && (
        <p class='asset-grid__more'>
          <Button
            isBusy={isLoading}
            onClick={() => {
              focusNext()
              loadMore()
            }}
          >
            Show more
          </Button>
        </p>
      )}
      {isDragging && <p class='drop-target'>Drop files to upload them.</p>}
    </Screen>
  )
}
