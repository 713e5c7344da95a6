import { FileButton } from '../../components/file-button.tsx'
import { useFileDrop } from '../../components/file-drop.ts'
import { formatBytes } from '../../components/format.tsx'
import { Screen } from '../../components/screen.tsx'
import { href } from '../../core/router.ts'
import { useSettings } from '../../core/settings.ts'
import { AssetGrid, useAssets } from './asset-grid.tsx'
import { AssetTile } from './asset-tile.tsx'
import { UploadList } from './upload-list.tsx'
import { upload } from './uploads.ts'

/** All files of the account, and uploading. */
export function AssetsList () {
  const { max_upload_bytes: maxBytes } = useSettings()
  const list = useAssets(true)
  const addFiles = (files: readonly File[]) => upload(files, maxBytes)
  const isDragging = useFileDrop(addFiles)
  return (
    <Screen
      title='Assets'
      actions={<FileButton kind='primary' isMultiple onChoose={addFiles}>Upload files</FileButton>}
    >
      <UploadList />
      {list.isEmpty && (
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
      {!list.isEmpty && (
        <AssetGrid list={list}>
          {(asset) => (
            <a class='asset-grid__tile' href={href('assets', asset.id)}>
              <AssetTile asset={asset} />
            </a>
          )}
        </AssetGrid>
      )}
      {isDragging && <p class='drop-target'>Drop files to upload them.</p>}
    </Screen>
  )
}
