import { verifyWebhook, WebhookVerificationError } from '@landfall/client'
import { revalidateTag } from 'next/cache'
import { ALL_PAGES, tagOf } from '../../../landfall.js'

/** Receives the webhook. A message that arrives twice or late does no harm: the page is read once more. */
export async function POST (request) {
  try {
    const secrets = process.env.LANDFALL_WEBHOOK_SECRET.split(' ')
    const { data: { page } } = await verifyWebhook(await request.text(), request.headers, secrets)
    // With 'max' instead of { expire: 0 }, the next visitor would still get the old document.
    revalidateTag(page === undefined ? ALL_PAGES : tagOf(page.public_id), { expire: 0 })
    return new Response(null, { status: 204 })
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    return new Response(null, { status: 400 })
  }
}
