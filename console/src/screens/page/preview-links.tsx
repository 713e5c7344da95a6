import type { NewPreviewLink, PreviewLink } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Choice, Field } from '../../components/field.tsx'
import { Moment, Time } from '../../components/format.tsx'
import { Form } from '../../components/form.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { href } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { fillAddress, useSiteAddress, type SitePage } from '../../core/site.ts'

const HOUR_S = 3600
const DAY_S = 24 * HOUR_S
const VALIDITIES = [['1 hour', HOUR_S], ['1 day', DAY_S], ['1 week', 7 * DAY_S], [
  '30 days',
  30 * DAY_S
]] as const
const NAME_MAX = 100
/** The most that a page can have. */
const MAX_LINKS = 100

interface PreviewLinksProps {
  readonly page: SitePage
  readonly isChanged: boolean
  readonly onClose: () => void
}

/** The links with which others see the draft of a page. */
export function PreviewLinks ({ page, isChanged, onClose }: PreviewLinksProps) {
  const { id } = page
  const { data, error, reload } = useLoad(
    async (signal) => (await landfall.landingPages.previewLinksPage(id, { limit: MAX_LINKS, signal })).items,
    [id]
  )
  const address = useSiteAddress()
  const hasPreviews = address?.includes('{token}') === true
  const [created, setCreated] = useState<NewPreviewLink>()
  return (
    <Dialog title='Preview links' onClose={onClose}>
      <p>
        Whoever has a preview link sees this page before it is published: its draft, or without one the page
        as it was saved last.{isChanged && ' Your unsaved changes are not part of it.'}
      </p>
      {!hasPreviews && (
        <p>
          The console doesn’t know how your website shows drafts, so it can only create tokens, which the
          website needs for that. They become links once the address of your website, in{' '}
          <a href={href('account', 'site')}>your account</a>, has {'{token}'}{' '}
          in it. Ask who built the website.
        </p>
      )}
      {created !== undefined && (
        <ShownLink
          url={hasPreviews ? fillAddress(address, page, created.token) : undefined}
          token={created.token}
          key={created.id}
        />
      )}
      <ErrorNotice error={error} onRetry={reload} />
      {data !== undefined && data.length > 0 && (
        <ul class='preview-links' aria-label='Links that are valid'>
          {data.map((link) => (
            <Link
              page={page}
              link={link}
              onRevoked={() => {
                if (created?.id === link.id) setCreated(undefined)
                reload()
              }}
              key={link.id}
            />
          ))}
        </ul>
      )}
      <NewLink
        page={page}
        what={hasPreviews ? 'link' : 'token'}
        onCreated={(link) => {
          setCreated(link)
          reload()
        }}
      />
      <Actions>
        <Button onClick={onClose}>Close</Button>
      </Actions>
    </Dialog>
  )
}

interface NewLinkProps {
  readonly page: SitePage
  /** What the person gets. */
  readonly what: 'link' | 'token'
  readonly onCreated: (link: NewPreviewLink) => void
}

function NewLink ({ page: { id }, what, onCreated }: NewLinkProps) {
  const [name, setName] = useState('')
  const [expiresIn, setExpiresIn] = useState<number>(7 * DAY_S)
  const creation = useAction(async () => {
    const given = name.trim()
    onCreated(await landfall.landingPages.createPreviewLink(id, {
      expiresIn,
      ...given !== '' && { name: given }
    }))
    setName('')
  })
  return (
    <Form onSubmit={() => creation.run()}>
      <Field
        label='Who is it for?'
        hint='So that you find it in this list.'
        value={name}
        onInput={setName}
        maxLength={NAME_MAX}
      />
      <Choice label='Valid for' value={expiresIn} options={VALIDITIES} onChange={setExpiresIn} />
      <ErrorNotice error={creation.error} />
      <Actions>
        <Button type='submit' kind='primary' isBusy={creation.isRunning}>Create a {what}</Button>
      </Actions>
    </Form>
  )
}

interface ShownLinkProps {
  /** Undefined if the website can't show drafts. */
  readonly url: string | undefined
  readonly token: string
}

/** A new link, which is shown only once. */
function ShownLink ({ url, token }: ShownLinkProps) {
  return (
    <div class='notice'>
      <ShownOnce text={url ?? token} what={url === undefined ? 'token' : 'link'}>
        {url !== undefined && (
          <a class='button' href={url} target='_blank' rel='noopener noreferrer'>
            Open<span class='visually-hidden'>, in a new tab</span>
          </a>
        )}
      </ShownOnce>
    </div>
  )
}

interface LinkProps {
  readonly page: SitePage
  readonly link: PreviewLink
  readonly onRevoked: () => void
}

function Link ({ page, link, onRevoked }: LinkProps) {
  const { id, name, expires_at: expiresAt, last_used_at: lastUsedAt } = link
  const shown = name ?? 'Without a name'
  const revoking = useAction(async () => {
    await landfall.landingPages.deletePreviewLink(page.id, id).catch(ignoreMissing)
    announce(`Revoked: ${shown}. The link no longer works.`)
    onRevoked()
  })
  return (
    <li class='preview-links__link'>
      <div>
        <strong>
          <bdi>{shown}</bdi>
        </strong>
        <p class='quiet'>
          Valid until <Moment at={expiresAt} />, {lastUsedAt === null ? 'never used' : (
            <>
              last used <Time at={lastUsedAt} />
            </>
          )}
        </p>
        <ErrorNotice error={revoking.error} />
      </div>
      <Button
        kind='quiet'
        label={`Revoke ${shown}`}
        isBusy={revoking.isRunning}
        onClick={() => revoking.run()}
      >
        Revoke
      </Button>
    </li>
  )
}
