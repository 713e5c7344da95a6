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

/** Whether readers get the page, and the button that changes it. */
export function Publication ({ id, published, onChange }: PublicationProps) {
  const change = useAction(async () => {
    if (published) await landfall.landingPages.unpublish(id)
    else await landfall.landingPages.publish(id)
    onChange(!published)
    announce(published ? 'Unpublished. Readers get “Not found”.'
      : 'Published. Readers get the saved version.')
  })
  return (
    <>
      <p class='publication'>
        <span class={published ? 'quiet' : undefined}>
          {published ? 'Published' : 'Unpublished: readers get “Not found”, whatever you save.'}
        </span>
        <Button kind='quiet' isBusy={change.isRunning} onClick={() => change.run()}>
          {published ? 'Unpublish' : 'Publish'}
        </Button>
      </p>
      <ErrorNotice error={change.error} />
    </>
  )
}
