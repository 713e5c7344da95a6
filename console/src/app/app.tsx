import { useEffect, useLayoutEffect } from 'preact/hooks'
import { ErrorNotice } from '../components/error-notice.tsx'
import { isForSignedOut, SignedOutScreens } from '../screens/sign-in/signed-out-screens.tsx'
import { SignInAgain } from '../screens/sign-in/sign-in-again.tsx'
import { Announcements } from '../core/announcements.tsx'
import { Banners } from './banners.tsx'
import { Header } from './header.tsx'
import { useLoad } from '../core/load.ts'
import { getPlace, redirect, usePath } from '../core/router.ts'
import { landfall } from '../core/service.ts'
import { loadSettings, SettingsContext, useNewVersion, type ServiceSettings } from '../core/settings.ts'
import { endSession, sessionStore, showUser } from '../core/session.ts'
import { ScreenOf } from './screen-of.tsx'
import { useStore } from '../core/store.ts'

/** The console: first who is signed in is found out, then their screens are shown. */
export function App () {
  const { data: settings, error, reload } = useLoad(start, [])
  if (settings === undefined) {
    return (
      <main class='main main--narrow' aria-busy={error === undefined}>
        <h1>Landfall</h1>
        <ErrorNotice error={error} onRetry={reload} retriesItself />
      </main>
    )
  }
  return (
    <SettingsContext.Provider value={settings}>
      <Console />
      <Announcements />
    </SettingsContext.Provider>
  )
}

function Console () {
  const session = useStore(sessionStore)
  const hasNewVersion = useNewVersion()
  if (session.status === 'starting' || session.status === 'signed-out') {
    return <SignedOutScreens banners={<Banners hasNewVersion={hasNewVersion} />} />
  }
  return (
    // Another user gets new screens, which show nothing of the user before.
    <div class='app' key={session.user.id}>
      <Header email={session.user.email} />
      <Banners hasNewVersion={hasNewVersion} user={session.user} />
      <main class='main' id='main'>
        <CurrentScreen />
      </main>
      {session.status === 'ended' && <SignInAgain user={session.user} />}
    </div>
  )
}

function CurrentScreen () {
  const path = usePath()
  useEffect(() => {
    if (isForSignedOut(path)) redirect('pages')
  }, [path])
  // Before the screen is painted. After Back, its list is as long as it was.
  useLayoutEffect(() => scrollTo(0, getPlace().top ?? 0), [path])
  return isForSignedOut(path) ? null : <ScreenOf path={path} />
}

async function start (signal: AbortSignal): Promise<ServiceSettings> {
  const [settings, user] = await Promise.all([loadSettings(signal), landfall.auth.resume({ signal })])
  if (user === undefined) endSession()
  else showUser(user)
  return settings
}
