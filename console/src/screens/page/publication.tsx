import { PreconditionFailedError } from '@landfall/client'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'

interface PublicationProps {
  readonly id: string
  readonly published: boolean
  readonly onChange: (published: boolean) => void
}

/** Publishes the document of a page, unless the page has a draft, which would become the document. */
async function publishDocument (id: string): Promise<void> {
  const { etag } = await landfall.landingPages.getDocument(id)
  await landfall.landingPages.publish(id, { ifMatch: etag }).catch((error: unknown) => {
    if (!(error instanceof PreconditionFailedError)) throw error
    throw new Error('This page has a draft, or was just changed. Drafts are published through the API.')
  })
}

/** Whether visitors get the page, and the button that changes it. */
export function Publication ({ id, published, onChange }: PublicationProps) {
  const change = useAction(async () => {
    if (published) await landfall.landingPages.unpublish(id)
    else await publishDocument(id)
    onChange(!published)
    announce(published ? 'Unpublished. Visitors get “Not found”.'
      : 'Published. Visitors get the saved version.')
  })
  return (
    <>
      <p class='publication'>
        <span class={published ? 'quiet' : undefined}>
          {published ? 'Published' : 'Unpublished: visitors get “Not found”, whatever you save.'}
        </span>
        <Button kind='quiet' isBusy={change.isRunning} onClick={() => change.run()}>
          {published ? 'Unpublish' : 'Publish'}
        </Button>
      </p>
      <ErrorNotice error={change.error} />
    </>
  )
}
