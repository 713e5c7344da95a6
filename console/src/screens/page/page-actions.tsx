import { exactJson } from '@landfall/client'
import { Button } from '../../components/button.tsx'
import { announce } from '../../core/announcements.tsx'
import type { Action } from '../../core/load.ts'
import { leaveFor, mayLeave } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { useSiteUrl } from '../../core/site.ts'

interface PageActionsProps {
  readonly id: string
  readonly publicId: string
  readonly duplication: Action<[]>
  readonly onDelete: () => void
}

/** What can be done with a whole page. */
export function PageActions ({ id, publicId, duplication, onDelete }: PageActionsProps) {
  const siteUrl = useSiteUrl({ id, publicId })
  return (
    <>
      {siteUrl !== undefined && (
        <a class='button' href={siteUrl} target='_blank' rel='noopener noreferrer'>
          Open my site<span class='visually-hidden'>, in a new tab</span>
        </a>
      )}
      <Button isBusy={duplication.isRunning} onClick={() => duplication.run()}>Duplicate</Button>
      <Button onClick={onDelete}>Delete the page</Button>
    </>
  )
}

/** Creates a page with the saved document of another one, exactly, and goes to it. */
export async function duplicate (id: string): Promise<void> {
  if (!await mayLeave()) return
  const [{ text }, { published, draft }] = await Promise.all([
    landfall.landingPages.getDocument(id),
    landfall.landingPages.publication(id)
  ])
  const copy = await landfall.landingPages.create(exactJson(text), { published })
  announce(`This is the copy. It has an address of its own, ${
    published ? 'and everybody can read it' : 'and is unpublished, too'
  }.${draft === null ? '' : ' The draft is not copied.'}`)
  leaveFor('pages', copy.id)
}
