import { useState } from 'preact/hooks'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { enter } from '../../core/tabs.ts'
import { Button } from '../../components/button.tsx'
import { CurrentPasswordField, EmailField } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'

/** @param userEmail the address of a user whose session has ended. Only this user can sign in. */
export function SignInForm ({ userEmail }: { readonly userEmail?: string }) {
  const [email, setEmail] = useState(userEmail ?? '')
  const [password, setPassword] = useState('')
  const signIn = useAction(async () => enter(await landfall.auth.signIn({ email, password })))
  return (
    <Form onSubmit={() => signIn.run()}>
      <EmailField value={email} onInput={setEmail} isReadOnly={userEmail !== undefined} />
      <CurrentPasswordField
        label='Password'
        value={password}
        onInput={setPassword}
        hasAutofocus={userEmail !== undefined}
      />
      <ErrorNotice error={signIn.error} isSignIn />
      <Button type='submit' kind='primary' isBusy={signIn.isRunning}>Sign in</Button>
    </Form>
  )
}
