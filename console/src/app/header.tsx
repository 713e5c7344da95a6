import { Button } from '../components/button.tsx'
import { announce } from '../core/announcements.tsx'
import { sentencesOf } from '../components/error-notice.tsx'
import icon from '../icon.svg'
import { useAction } from '../core/load.ts'
import { href, mayLeave, navigate, usePath } from '../core/router.ts'
import { landfall } from '../core/service.ts'
import { leave } from '../core/tabs.ts'
import { UploadsStatus } from './uploads-status.tsx'

const AREAS = [['pages', 'Pages'], ['assets', 'Assets'], ['account', 'Account']] as const

/** The name of the service, the way to its areas, who is signed in, and the way out. */
export function Header ({ email }: { readonly email: string }) {
  const [area = 'pages'] = usePath()
  const signOut = useAction(async () => {
    if (!await mayLeave()) return
    try {
      await landfall.auth.signOut()
      leave()
      navigate('sign-in') // the next sign-in, perhaps of somebody else, begins at the pages
    } catch (error) {
      announce(`You are still signed in. ${sentencesOf(error).join(' ')}`)
    }
  })
  return (
    <header class='header'>
      <a class='skip-link' href='#main' onClick={focusMain}>Skip to the content</a>
      <a class='header__name' href={href('pages')}>
        <img src={icon} alt='' width={24} height={24} />
        Landfall
      </a>
      <nav class='header__areas' aria-label='Areas'>
        {AREAS.map(([path, name]) => (
          <a
            class='header__area'
            href={href(path)}
            aria-current={area === path ? 'page' : undefined}
            key={path}
          >
            {name}
          </a>
        ))}
      </nav>
      <UploadsStatus />
      <span class='header__user' title={email}>
        <bdi>{email}</bdi>
      </span>
      <Button kind='quiet' isBusy={signOut.isRunning} onClick={() => signOut.run()}>Sign out</Button>
    </header>
  )
}

/** The fragment of the URL is the path of the screen, so it can't be used for this link. */
function focusMain (event: Event): void {
  event.preventDefault()
  document.querySelector<HTMLElement>('h1')?.focus()
}
