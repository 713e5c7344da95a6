import { DangerActions } from '../../components/danger-actions.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { formatNumber } from '../../components/format.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'
import type { ListedPage } from './page-list.tsx'

interface DeletePageProps {
  /** `published` and `reads` are undefined if they are not known. */
  readonly page: Pick<ListedPage, 'id' | 'name' | 'public_id'> & {
    readonly published: boolean | undefined
    readonly reads: readonly number[] | undefined
  }
  readonly onDeleted: () => void
  readonly onClose: () => void
}

/** Asks whether to delete a page, and deletes it. */
export function DeletePage ({ page, onDeleted, onClose }: DeletePageProps) {
  const { id, name, public_id: publicId, published, reads } = page
  const deletion = useAction(async () => {
    await landfall.landingPages.delete(id).catch(ignoreMissing)
    announce(`Deleted: ${name}`)
    onDeleted()
  })
  const { trash_days: trashDays } = useSettings()
  const sum = reads?.reduce((total, count) => total + count, 0)
  return (
    <Dialog title='Delete this page?' onClose={onClose} canCancel={!deletion.isRunning}>
      <p class='delete-page__name'>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        {name !== publicId && <code>{publicId}</code>}
      </p>
      <p>
        {published === false ? 'Visitors get “Not found” already.' : 'Its visitors get “Not found” at once.'}
        {sum !== undefined && ` ${countText(sum)}`}
      </p>
      <p>
        {trashDays === 0
          ? 'The page, all its versions and its read counts are deleted. This can’t be undone.'
          : `The page goes to the trash, from which you can restore it for ${trashDays} days. A schedule is lost.`}
      </p>
      <DangerActions action={deletion} text='Delete the page' onClose={onClose} />
    </Dialog>
  )
}

const countText = (sum: number): string =>
  sum === 0 ? 'It was not read in the last 24 hours.'
    : `It was read ${sum === 1 ? 'once' : `${formatNumber(sum)} times`} in the last 24 hours.`
