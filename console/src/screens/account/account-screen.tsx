import { Screen } from '../../components/screen.tsx'
import { href } from '../../core/router.ts'
import { ApiKeys } from './api-keys.tsx'
import { ChangePassword } from './change-password.tsx'
import { DeleteAccount } from './delete-account.tsx'
import { EmailAddress } from './email-address.tsx'
import { MySite } from './my-site.tsx'
import { Sessions } from './sessions.tsx'

const SECTIONS = [
  ['password', 'Password', ChangePassword],
  ['sessions', 'Sessions', Sessions],
  ['api-keys', 'API keys', ApiKeys],
  ['site', 'My site', MySite],
  ['email', 'E-mail address', EmailAddress],
  ['delete', 'Delete the account', DeleteAccount]
] as const

/** The account of the person. */
export function AccountScreen ({ section }: { readonly section: string }) {
  const [shown, , Section] = SECTIONS.find(([path]) => path === section) ?? SECTIONS[0]
  return (
    <Screen title='Account'>
      <nav class='tabs' aria-label='Your account'>
        {SECTIONS.map(([path, name]) => (
          <a
            class='tabs__tab'
            href={href('account', path)}
            aria-current={path === shown ? 'page' : undefined}
            key={path}
          >
            {name}
          </a>
        ))}
      </nav>
      <div class='account'>
        <Section />
      </div>
    </Screen>
  )
}
