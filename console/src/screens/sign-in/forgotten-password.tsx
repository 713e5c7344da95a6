import { useState } from 'preact/hooks'
import { useAction } from '../../core/load.ts'
import { href } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { Button } from '../../components/button.tsx'
import { EmailField } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'
import { Screen } from '../../components/screen.tsx'

/** Asks for a mail with a link. The page behind the link belongs to the service, not to the console. */
export function ForgottenPassword () {
  const [email, setEmail] = useState('')
  const [sentTo, setSentTo] = useState<string>()
  const ask = useAction(async () => {
    await landfall.auth.requestPasswordReset(email)
    setSentTo(email)
  })
  return (
    <Screen title='Forgotten password' startsInField>
      <div role='status'>
        {sentTo !== undefined && (
          <p class='notice'>
            If {sentTo}{' '}
            has an account, a mail with a link to choose a new password is on its way. The link is valid for
            an hour.
          </p>
        )}
      </div>
      <Form onSubmit={() => ask.run()}>
        <EmailField value={email} onInput={setEmail} />
        <ErrorNotice error={ask.error} />
        <Button type='submit' kind='primary' isBusy={ask.isRunning}>Send me a link</Button>
      </Form>
      <p>
        <a href={href('sign-in')}>Back to the sign-in</a>
      </p>
    </Screen>
  )
}
