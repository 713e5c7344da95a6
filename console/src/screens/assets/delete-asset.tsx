import { ConflictError, type AssetWithReferences } from '@landfall/client'
import { useState } from 'preact/hooks'
import { DangerActions } from '../../components/danger-actions.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { UsingPages } from './using-pages.tsx'

interface DeleteAssetProps {
  readonly asset: AssetWithReferences
  readonly onDeleted: () => void
  readonly onClose: () => void
}

/** Asks whether to delete an asset, and names the pages that use it. Asks again if a page has begun to. */
export function DeleteAsset ({ asset, onDeleted, onClose }: DeleteAssetProps) {
  const { id, filename } = asset
  const [usingPages, setUsingPages] = useState(asset.used_by)
  const isUsed = usingPages.length > 0
  const isRefused = usingPages !== asset.used_by
  const deletion = useAction(async () => {
    try {
      await landfall.assets.delete(id, { ifUnused: !isUsed })
    } catch (error) {
      if (error instanceof ConflictError) {
        setUsingPages((await landfall.assets.get(id)).used_by)
        return
      }
      ignoreMissing(error)
    }
    announce(`Deleted: ${filename}`)
    onDeleted()
  })
  return (
    <Dialog
      title={isUsed ? 'This asset is used' : 'Delete this asset?'}
      onClose={onClose}
      canCancel={!deletion.isRunning}
    >
      <p>
        <strong>
          <bdi>{filename}</bdi>
        </strong>
      </p>
      {isUsed && (
        <div role={isRefused ? 'alert' : undefined}>
          <p>{isRefused ? 'It was not deleted, because these pages use it:' : 'These pages use it:'}</p>
          <UsingPages pages={usingPages} />
          <p>If you delete it anyway, visitors of these pages get “Not found” instead of it.</p>
        </div>
      )}
      <p>{!isUsed && 'Its URL gives “Not found” at once. '}This can’t be undone.</p>
      <DangerActions
        action={deletion}
        text={isUsed ? 'Delete it anyway' : 'Delete the asset'}
        safeText={isUsed ? 'Keep the asset' : 'Cancel'}
        onClose={onClose}
      />
    </Dialog>
  )
}
