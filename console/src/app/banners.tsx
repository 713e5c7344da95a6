import type { User } from '@landfall/client'
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../components/button.tsx'
import { ErrorNotice } from '../components/error-notice.tsx'
import { CONFIRMING_SIGNS_OUT, useConfirmationMail } from '../core/confirmation-mail.ts'
import { useSettings } from '../core/settings.ts'

interface BannersProps {
  readonly hasNewVersion: boolean
  readonly user?: User
}

/** What concerns every screen: no connection, a new version, an address that isn't confirmed. */
export function Banners ({ hasNewVersion, user }: BannersProps) {
  const { sends_mail: sendsMail } = useSettings()
  const isOnline = useOnline()
  return (
    <div class='banners'>
      <div role='status'>
        {!isOnline && <p class='banner'>You are offline. What you write stays here until you can save it.</p>}
        {hasNewVersion && (
          <p class='banner'>
            There is a new version of the console. Save your work, then{' '}
            <Button kind='quiet' onClick={() => location.reload()}>Load it</Button>
          </p>
        )}
      </div>
      {sendsMail && user?.email_confirmed_at === null && <ConfirmationBanner email={user.email} />}
    </div>
  )
}

function ConfirmationBanner ({ email }: { readonly email: string }) {
  const { requires_confirmed_email: isRequired } = useSettings()
  const send = useConfirmationMail(email)
  return (
    <section class='banner' aria-label='Your e-mail address'>
      <p>
        Confirm your address: open the link in the mail to {email}. {CONFIRMING_SIGNS_OUT}
        {isRequired && ' Until then you can read, but not change anything.'}{' '}
        <Button kind='quiet' isBusy={send.isRunning} onClick={() => send.run()}>
          Send the mail again
        </Button>
      </p>
      <ErrorNotice error={send.error} />
    </section>
  )
}

function useOnline (): boolean {
  const [isOnline, setIsOnline] = useState(navigator.onLine)
  useEffect(() => {
    const update = () => setIsOnline(navigator.onLine)
    addEventListener('online', update)
    addEventListener('offline', update)
    return () => {
      removeEventListener('online', update)
      removeEventListener('offline', update)
    }
  }, [])
  return isOnline
}
