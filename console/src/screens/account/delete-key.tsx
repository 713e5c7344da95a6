import type { ApiKey } from '@landfall/client'
import { DangerActions } from '../../components/danger-actions.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Time } from '../../components/format.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'

interface DeleteKeyProps {
  readonly apiKey: ApiKey
  readonly onDeleted: () => void
  readonly onClose: () => void
}

/** Asks whether to delete a key, and deletes it. */
export function DeleteKey ({ apiKey, onDeleted, onClose }: DeleteKeyProps) {
  const { id, name, last_used_at: used } = apiKey
  const deletion = useAction(async () => {
    await landfall.apiKeys.delete(id).catch(ignoreMissing)
    announce(`Deleted: ${name}`)
    onDeleted()
  })
  return (
    <Dialog title='Delete this key?' onClose={onClose} canCancel={!deletion.isRunning}>
      <p>
        <strong>
          <bdi>{name}</bdi>
        </strong>
      </p>
      <p>
        {used === null ? 'It was never used.' : (
          <>
            It was last used <Time at={used} />.
          </>
        )} Programs that have the key are refused at once. This can’t be undone.
      </p>
      <DangerActions action={deletion} text='Delete the key' onClose={onClose} />
    </Dialog>
  )
}
