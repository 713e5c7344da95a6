import { useEffect } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Time } from '../../components/format.tsx'
import { CONFIRMING_SIGNS_OUT, useConfirmationMail } from '../../core/confirmation-mail.ts'
import { useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { sessionStore, showUser, useUser } from '../../core/session.ts'
import { useSettings } from '../../core/settings.ts'

export function EmailAddress () {
  const { sends_mail: sendsMail } = useSettings()
  const { email, email_confirmed_at: confirmedAt } = useUser()
  // The address may have been confirmed on another device.
  const { data: user, error, reload } = useLoad(async (signal) => await landfall.auth.me({ signal }), [])
  useEffect(() => {
    if (user !== undefined && sessionStore.get().status === 'signed-in') showUser(user)
  }, [user])
  return (
    <section class='account__section' aria-labelledby='email'>
      <h2 id='email'>E-mail address</h2>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      <p>
        You sign in with{' '}
        <strong>
          <bdi>{email}</bdi>
        </strong>.
      </p>
      {confirmedAt !== null && (
        <p>
          You confirmed it <Time at={confirmedAt} />.
        </p>
      )}
      {confirmedAt === null && sendsMail && <Unconfirmed email={email} />}
      {confirmedAt === null && !sendsMail && (
        <p class='quiet'>This service sends no mail, so the address can’t be confirmed.</p>
      )}
    </section>
  )
}

function Unconfirmed ({ email }: { readonly email: string }) {
  const { requires_confirmed_email: isRequired } = useSettings()
  const send = useConfirmationMail(email)
  return (
    <>
      <p>
        It is not confirmed yet. Open the link in the mail that you got. It is valid for an hour.{' '}
        {CONFIRMING_SIGNS_OUT}
        {isRequired && ' Until then you can read, but not change anything.'}
      </p>
      <ErrorNotice error={send.error} />
      <Button isBusy={send.isRunning} onClick={() => send.run()}>Send me another mail</Button>
    </>
  )
}
