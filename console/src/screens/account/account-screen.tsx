import { Screen } from '../../components/screen.tsx'
import { href } from '../../core/router.ts'
import { useSettings } from '../../core/settings.ts'
import { ApiKeys } from './api-keys.tsx'
import { ChangePassword } from './change-password.tsx'
import { DeleteAccount } from './delete-account.tsx'
import { EmailAddress } from './email-address.tsx'
import { MySite } from './my-site.tsx'
import { Sessions } from './sessions.tsx'
import { WebhooksPart } from './webhooks-part.tsx'

const SECTIONS = [
  ['password', 'Password', ChangePassword],
  ['sessions', 'Sessions', Sessions],
  ['api-keys', 'API keys', ApiKeys],
  ['webhooks', 'Webhooks', WebhooksPart],
  ['site', 'My site', MySite],
  ['email', 'E-mail address', EmailAddress],
  ['delete', 'Delete the account', DeleteAccount]
] as const

interface AccountScreenProps {
  readonly section: string
  /** What the section shows in detail. */
  readonly item: string | undefined
}

/** The account of the person. */
export function AccountScreen ({ section, item }: AccountScreenProps) {
  const { has_webhooks: hasWebhooks } = useSettings()
  const sections = SECTIONS.filter(([path]) => path !== 'webhooks' || hasWebhooks)
  const [shown, , Section] = sections.find(([path]) => path === section) ?? SECTIONS[0]
  return (
    <Screen title='Account'>
      <nav class='tabs' aria-label='Your account'>
        {sections.map(([path, name]) => (
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
        <Section item={item} />
      </div>
    </Screen>
  )
}
