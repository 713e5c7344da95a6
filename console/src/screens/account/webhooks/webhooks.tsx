import type { Delivery, Webhook } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { ErrorNotice } from '../../../components/error-notice.tsx'
import { Time } from '../../../components/format.tsx'
import { useLoad } from '../../../core/load.ts'
import { href } from '../../../core/router.ts'
import { landfall } from '../../../core/service.ts'
import { takeFirst } from '../../../core/take-first.ts'
import { DELIVERY_STATES, WebhookState, webhookName } from './words.tsx'
import { WebhookDialog } from './webhook-dialog.tsx'
import { WebhookDetails } from './webhook-details.tsx'

/** The most that an account can have. */
const MAX_WEBHOOKS = 10

/** The webhooks of the account, or one of them. */
export function Webhooks ({ id }: { readonly id: string | undefined }) {
  return id === undefined ? <WebhookList /> : <WebhookDetails id={id} key={id} />
}

interface ListedWebhook {
  readonly webhook: Webhook
  readonly last: Delivery | undefined
}

function WebhookList () {
  const { data, error, isLoading, reload } = useLoad(loadAll, [])
  const [isCreating, setIsCreating] = useState(false)
  return (
    <section class='account__section' aria-labelledby='webhooks'>
      <h2 id='webhooks'>Webhooks</h2>
      <p>
        A webhook tells another service, such as the build of your website, that visitors see something else
        than before. The people who run that service give you its URL.
      </p>
      {data !== undefined && data.length >= MAX_WEBHOOKS
        ? <p class='quiet'>You have {MAX_WEBHOOKS} webhooks, the most that an account can have.</p>
        : <Button kind='primary' onClick={() => setIsCreating(true)}>New webhook</Button>}
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the webhooks …</p>}
      {data?.length === 0 && <p class='quiet'>You have no webhooks.</p>}
      <ul class='account-list' aria-busy={isLoading}>
        {data?.map((listed) => <WebhookRow {...listed} key={listed.webhook.id} />)}
      </ul>
      {isCreating && <WebhookDialog onSaved={reload} onClose={() => setIsCreating(false)} />}
    </section>
  )
}

async function loadAll (signal: AbortSignal): Promise<readonly ListedWebhook[]> {
  const { items } = await takeFirst(landfall.webhooks.list({ signal }), MAX_WEBHOOKS)
  return await Promise.all(items.map(async (webhook) => {
    const { items: [last] } = await takeFirst(
      landfall.webhooks.deliveries(webhook.id, { limit: 2, signal }),
      1
    )
    return { webhook, last }
  }))
}

function WebhookRow ({ webhook, last }: ListedWebhook) {
  return (
    <li class='account-list__row'>
      <div class='account-list__what'>
        <a href={href('account', 'webhooks', webhook.id)}>
          <bdi>{webhookName(webhook)}</bdi>
        </a>
        <WebhookState webhook={webhook} />
      </div>
      <p class='account-list__facts'>
        {webhook.name !== null && (
          <>
            {webhook.url}
            <br />
          </>
        )}
        {last === undefined ? 'No message yet' : (
          <>
            Last message: {DELIVERY_STATES[last.state].toLowerCase()}, <Time at={last.created_at} />
          </>
        )}
      </p>
    </li>
  )
}
