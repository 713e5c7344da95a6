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

/** Asks whether to delete a page. Adds its state and how often it was read, when they are known. */
export function DeleteThisPage ({ id, publicId, name, onDeleted, onClose }: DeleteThisPageProps) {
  const { data: publication } = useLoad(
    async (signal) => await landfall.landingPages.publication(id, { signal }),
    [id]
  )
  const { data: reads } = useLoad(async (signal) => {
    const hours = await landfall.landingPages.reads(id, { signal })
    return hours.map(({ reads, not_modified: notModified }) => reads + notModified)
  }, [id])
  return (
    <DeletePage
      page={{ id, name, public_id: publicId, published: publication?.published, reads }}
      onDeleted={onDeleted}
      onClose={onClose}
    />
  )
}
