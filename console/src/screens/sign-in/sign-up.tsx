import { useState } from 'preact/hooks'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { href, redirect } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { enter } from '../../core/tabs.ts'
import { useSettings } from '../../core/settings.ts'
import { Button } from '../../components/button.tsx'
import { EmailField, NewPasswordFields } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'
import { Screen } from '../../components/screen.tsx'

export function SignUp () {
  const { sign_up: signUp } = useSettings()
  return (
    <Screen title='Create an account' startsInField>
      {signUp === 'open' ? <SignUpForm /> : <p>The operator of this service creates the accounts.</p>}
      <p>
        Have an account? <a href={href('sign-in')}>Sign in</a>
      </p>
    </Screen>
  )
}

function SignUpForm () {
  const { sends_mail: sendsMail } = useSettings()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [confirmation, setConfirmation] = useState('')
  const signUp = useAction(async () => {
    const user = await landfall.auth.signUp({ email, password, password_confirmation: confirmation })
    redirect('pages')
    enter(user)
    announce(sendsMail ? 'Your account is ready. A mail asks you to confirm your address.'
      : 'Your account is ready.')
  })
  return (
    <Form onSubmit={() => signUp.run()}>
      <EmailField value={email} onInput={setEmail} />
      <NewPasswordFields
        label='Password'
        password={password}
        onPassword={setPassword}
        confirmation={confirmation}
        onConfirmation={setConfirmation}
      />
      <ErrorNotice error={signUp.error} />
      <Button type='submit' kind='primary' isBusy={signUp.isRunning}>Create the account</Button>
    </Form>
  )
}
