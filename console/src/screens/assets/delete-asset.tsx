import { ConflictError, type AssetWithUses } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { UsingPages } from './using-pages.tsx'

interface DeleteAssetProps {
  readonly asset: AssetWithUses
  readonly onDeleted: () => void
  readonly onClose: () => void
}

/** Asks whether to delete an asset, and once more if pages use it. */
export function DeleteAsset ({ asset: { id, filename }, onDeleted, onClose }: DeleteAssetProps) {
  /** The pages because of which the service has refused the deletion. */
  const [usingPages, setUsingPages] = useState<AssetWithUses['used_by']>()
  const deletion = useAction(async () => {
    try {
      await landfall.assets.delete(id, { ifUnused: usingPages === undefined })
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
      title={usingPages === undefined ? 'Delete this asset?' : 'This asset is used'}
      onClose={onClose}
      canCancel={!deletion.isRunning}
    >
      <p>
        <strong>
          <bdi>{filename}</bdi>
        </strong>
      </p>
      {usingPages === undefined ? <p>Its URL gives “Not found” at once. This can’t be undone.</p>
        : (
          <div role='alert'>
            <p>It was not deleted, because these pages use it:</p>
            <UsingPages pages={usingPages} />
            <p>If you delete it anyway, readers of these pages get “Not found” instead of it.</p>
          </div>
        )}
      <ErrorNotice error={deletion.error} />
      <Actions>
        <Button kind='danger' isBusy={deletion.isRunning} onClick={() => deletion.run()}>
          {usingPages === undefined ? 'Delete the asset' : 'Delete it anyway'}
        </Button>
        <Button onClick={onClose} isDisabled={deletion.isRunning}>
          {usingPages === undefined ? 'Cancel' : 'Keep the asset'}
        </Button>
      </Actions>
    </Dialog>
  )
}
