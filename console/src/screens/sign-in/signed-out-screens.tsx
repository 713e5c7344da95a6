import type { ComponentChildren, JSX } from 'preact'
import icon from '../../icon.svg'
import { usePath, type Path } from '../../core/router.ts'
import { ForgottenPassword } from './forgotten-password.tsx'
import { SignIn } from './sign-in.tsx'
import { SignUp } from './sign-up.tsx'

const SCREENS: Readonly<Record<string, () => JSX.Element>> = {
  'sign-in': SignIn,
  'sign-up': SignUp,
  'forgotten-password': ForgottenPassword
}

/** Whether a path leads to a screen that somebody who is signed in doesn't need. */
export const isForSignedOut = ([area = '']: Path): boolean => Object.hasOwn(SCREENS, area)

/** What is shown to somebody who isn't signed in. Other paths are kept for after the sign-in. */
export function SignedOutScreens ({ banners }: { readonly banners: ComponentChildren }) {
  const path = usePath()
  const CurrentScreen = (isForSignedOut(path) && SCREENS[path[0] as string]) || SignIn
  return (
    <div class='app'>
      {banners}
      <main class='main main--narrow'>
        <p class='signed-out__name'>
          <img src={icon} alt='' width={32} height={32} />
          Landfall
        </p>
        <CurrentScreen />
      </main>
    </div>
  )
}
