import type { User } from '@landfall/client'
import { sessionStore } from '../../core/session.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { SignInForm } from './sign-in-form.tsx'

/** Asks a user whose session has ended to sign in again. What was on the screen stays there. */
export function SignInAgain ({ user }: { readonly user: User }) {
  const leaveScreen = () => sessionStore.set({ status: 'signed-out' })
  return (
    <Dialog title='Your session has ended' onClose={leaveScreen} canCancel={false}>
      <p>Sign in again to go on. Nothing on this screen is lost.</p>
      <SignInForm userEmail={user.email} />
      <p>
        <Button kind='quiet' onClick={leaveScreen}>Use another account</Button>{' '}
        <span class='quiet'>What is not saved on this screen is lost then.</span>
      </p>
    </Dialog>
  )
}
