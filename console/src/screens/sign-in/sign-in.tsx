import { href } from '../../core/router.ts'
import { useSettings } from '../../core/settings.ts'
import { Screen } from '../../components/screen.tsx'
import { SignInForm } from './sign-in-form.tsx'

export function SignIn () {
  const { sign_up: signUp, sends_mail: sendsMail } = useSettings()
  return (
    <Screen title='Sign in' startsInField>
      <SignInForm />
      <p>
        {sendsMail ? <a href={href('forgotten-password')}>Forgotten your password?</a>
          : 'Forgotten your password? Ask the operator of this service for a new one.'}
      </p>
      {signUp === 'open' && (
        <p>
          No account yet? <a href={href('sign-up')}>Create one</a>
        </p>
      )}
    </Screen>
  )
}
