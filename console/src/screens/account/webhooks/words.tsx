import type { Delivery, Webhook } from '@landfall/client'

// Webhooks and their messages in words.

export type EventName = Webhook['events'][number]

/** What a webhook can tell about. */
export const EVENTS: readonly (readonly [event: EventName, text: string])[] = [
  ['page.published', 'a page is published, or its published contents change'],
  ['page.unpublished', 'a page is unpublished'],
  ['page.deleted', 'a page is deleted']
]

export const MESSAGE_TYPES: Readonly<Record<string, string>> = {
  'page.published': 'Page published',
  'page.unpublished': 'Page unpublished',
  'page.deleted': 'Page deleted',
  'pages.changed': 'Pages changed',
  'webhook.test': 'Test'
}

export const DELIVERY_STATES: Readonly<Record<Delivery['state'], string>> = {
  waiting: 'Waiting',
  sending: 'Being sent',
  delivered: 'Delivered',
  failed: 'Failed'
}

const PAUSED = 'Messages wait until you resume it.'

/** What a person calls a webhook. */
export const webhookName = ({ name, url }: Webhook): string => name ?? url

/** Whether it is active, and whether its messages get through. */
export function WebhookState (
  { webhook: { active, failing_since: failingSince } }: { readonly webhook: Webhook }
) {
  const state = failingSince === null ? 'active' : 'failing'
  return <span class='account-list__badge'>{active ? state : 'paused'}</span>
}

/** Returns why a webhook is paused; undefined if it is not. */
export function pauseReason ({ active, paused_reason: reason }: Webhook): string | undefined {
  if (active) return undefined
  if (reason === 'gone') {
    return `It was paused because the receiver said that it is gone for good (status 410). ${PAUSED}`
  }
  return reason === 'failing' ? `It was paused because no message got through for three days. ${PAUSED}`
    : `You have paused it. ${PAUSED}`
}
