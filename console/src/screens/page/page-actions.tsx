import { exactJson } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { announce } from '../../core/announcements.tsx'
import type { Action } from '../../core/load.ts'
import { href, leaveFor, mayLeave } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { publicUrlOf, useSettings } from '../../core/settings.ts'
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
  const [isAsking, setIsAsking] = useState(false)
  return (
    <>
      {siteUrl === undefined
        ? <Button onClick={() => setIsAsking(true)}>View the page</Button>
        : (
          <a class='button' href={siteUrl} target='_blank' rel='noopener noreferrer'>
            View the page<span class='visually-hidden'>, in a new tab</span>
          </a>
        )}
      {isAsking && <UnknownSite publicId={publicId} onClose={() => setIsAsking(false)} />}
      <Button isBusy={duplication.isRunning} onClick={() => duplication.run()}>Duplicate</Button>
      <Button onClick={onDelete}>Delete the page</Button>
    </>
  )
}

interface UnknownSiteProps {
  readonly publicId: string
  readonly onClose: () => void
}

/** Says how the website is made known, and where the document is until then. */
function UnknownSite ({ publicId, onClose }: UnknownSiteProps) {
  const settings = useSettings()
  return (
    <Dialog title='Where does your website show this page?' onClose={onClose}>
      <p>
        <a href={href('account', 'site')}>Enter the address of your website</a>{' '}
        once, and then this button opens each page there.
      </p>
      <p>
        Until then, you can look at{' '}
        <a
          href={publicUrlOf(settings, publicId)}
          target='_blank'
          rel='noopener noreferrer'
        >
          what your website gets<span class='visually-hidden'>, in a new tab</span>
        </a>: the published contents without any design.
      </p>
      <Actions>
        <Button onClick={onClose}>Close</Button>
      </Actions>
    </Dialog>
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
