import { useState } from 'preact/hooks'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { enter } from '../../core/tabs.ts'
import { Button } from '../../components/button.tsx'
import { CurrentPasswordField, EmailField } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'

/** @param initialEmail the address of a user whose session has ended */
export function SignInForm ({ initialEmail = '' }: { readonly initialEmail?: string }) {
  const [email, setEmail] = useState(initialEmail)
  const [password, setPassword] = useState('')
  const signIn = useAction(async () => enter(await landfall.auth.signIn({ email, password })))
  return (
    <Form onSubmit={() => signIn.run()}>
      <EmailField value={email} onInput={setEmail} />
      <CurrentPasswordField
        label='Password'
        value={password}
        onInput={setPassword}
        hasAutofocus={initialEmail !== ''}
      />
      <ErrorNotice error={signIn.error} isSignIn />
      <Button type='submit' kind='primary' isBusy={signIn.isRunning}>Sign in</Button>
    </Form>
  )
}
