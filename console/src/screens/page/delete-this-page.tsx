import { useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { DeletePage } from '../pages/delete-page.tsx'

interface DeleteThisPageProps {
  readonly id: string
  readonly publicId: string
  readonly name: string
  readonly onDeleted: () => void
  readonly onClose: () => void
}

/** Asks whether to delete a page. Adds how often it was read, when this is known. */
export function DeleteThisPage ({ id, publicId, name, onDeleted, onClose }: DeleteThisPageProps) {
  const { data: reads } = useLoad(async (signal) => {
    const hours = await landfall.landingPages.reads(id, { signal })
    return hours.map(({ reads, not_modified: notModified }) => reads + notModified)
  }, [id])
  return (
    <DeletePage page={{ id, name, public_id: publicId, reads }} onDeleted={onDeleted} onClose={onClose} />
  )
}
