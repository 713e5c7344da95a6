import type { DeletedLandingPage } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { DangerActions } from '../../components/danger-actions.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Time } from '../../components/format.tsx'
import { Screen } from '../../components/screen.tsx'
import { announce } from '../../core/announcements.tsx'
import { nameOf } from '../../core/labels.ts'
import { useList } from '../../core/list.ts'
import { useAction } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { href, navigate } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'

/** Pages in one part, the most that the service gives. */
const PART = 100

/** Deleted pages, which can be restored for some days. */
export function TrashScreen () {
  const { items, next, error, isLoading, loadMore, remove } = useList(
    landfall.landingPages.deletedPagesPage,
    PART,
    true
  )
  const [toRemove, setToRemove] = useState<DeletedLandingPage>()
  return (
    <Screen title='Trash'>
      <p>
        <a href={href('pages')}>← Back to pages</a>
      </p>
      <p class='quiet'>
        Visitors of these pages get “Not found”. Restoring a page brings it back as it was, without its
        schedule.
      </p>
      <ErrorNotice error={error} onRetry={loadMore} />
      {items?.length === 0 && <p>The trash is empty.</p>}
      {items !== undefined && items.length > 0 && (
        <ul class='page-list'>
          {items.map((page) => <DeletedRow page={page} onRemove={setToRemove} key={page.id} />)}
        </ul>
      )}
      {isLoading && <p class='quiet' role='status'>Loading the trash …</p>}
      {next !== undefined && !isLoading && <Button onClick={loadMore}>Show more</Button>}
      {toRemove !== undefined && (
        <RemovePage
          page={toRemove}
          onRemoved={() => {
            remove(toRemove.id)
            setToRemove(undefined)
          }}
          onClose={() => setToRemove(undefined)}
        />
      )}
    </Screen>
  )
}

interface DeletedRowProps {
  readonly page: DeletedLandingPage
  readonly onRemove: (page: DeletedLandingPage) => void
}

function DeletedRow ({ page, onRemove }: DeletedRowProps) {
  const { id, public_id: publicId, deleted_at: deletedAt, purged_at: purgedAt } = page
  const name = nameOf(page.label, publicId)
  const restoring = useAction(async () => {
    await landfall.landingPages.undelete(id)
    announce(`Restored: ${name}`)
    navigate('pages', id)
  })
  return (
    <li class='page-list__row'>
      <div class='page-list__name'>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        <code class='page-list__id'>{publicId}</code>
        <ErrorNotice error={restoring.error} />
      </div>
      <p class='page-list__facts'>
        <span>
          Deleted <Time at={deletedAt} />
        </span>{' '}
        <span>
          Deleted for good <Time at={purgedAt} />
        </span>
      </p>
      <Button isBusy={restoring.isRunning} label={`Restore ${name}`} onClick={() => restoring.run()}>
        Restore
      </Button>
      <Button kind='quiet' label={`Remove ${name} for good`} onClick={() => onRemove(page)}>
        Remove for good
      </Button>
    </li>
  )
}

interface RemovePageProps {
  readonly page: DeletedLandingPage
  readonly onRemoved: () => void
  readonly onClose: () => void
}

function RemovePage ({ page, onRemoved, onClose }: RemovePageProps) {
  const name = nameOf(page.label, page.public_id)
  const removal = useAction(async () => {
    await landfall.landingPages.purge(page.id).catch(ignoreMissing)
    announce(`Removed: ${name}`)
    onRemoved()
  })
  return (
    <Dialog title='Remove this page for good?' onClose={onClose} canCancel={!removal.isRunning}>
      <p>
        <strong>
          <bdi>{name}</bdi>
        </strong>
      </p>
      <p>The page, all its versions and its read counts are deleted. This can’t be undone.</p>
      <DangerActions action={removal} text='Remove for good' onClose={onClose} />
    </Dialog>
  )
}
