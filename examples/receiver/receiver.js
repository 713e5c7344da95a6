import { createServer } from 'node:http'
import { verifyWebhook, WebhookVerificationError } from '@landfall/client'

const MAX_BODY_CHARACTERS = 10_000
const REMEMBERED_IDS = 1000

/**
 * Creates a server that receives the messages of a webhook.
 *
 * @param secrets the secret of the webhook, or several while it is being replaced
 * @param onMessage called once for each message, unless a newer one of the same page came before it
 */
export function createReceiver (secrets, onMessage) {
  const ids = new Set()
  const versions = new Map()

  function isNews (id, { page, version }) {
    if (ids.has(id)) return false
    ids.add(id)
    if (ids.size > REMEMBERED_IDS) ids.delete(ids.values().next().value)
    if (page === undefined) return true // pages.changed and webhook.test
    if (version < (versions.get(page.id) ?? 0)) return false
    versions.set(page.id, version)
    return true
  }

  return createServer(async (request, response) => {
    try {
      let body = ''
      for await (const text of request.setEncoding('utf8')) {
        body += text
        if (body.length > MAX_BODY_CHARACTERS) return response.writeHead(413, { connection: 'close' }).end()
      }
      const message = await verifyWebhook(body, request.headers, secrets)
      // First the response, then the work: Landfall waits for 15 seconds, and then sends the message again.
      response.writeHead(204).end()
      if (isNews(request.headers['webhook-id'], message.data)) onMessage(message)
    } catch (error) {
      console.error(error instanceof WebhookVerificationError ? error.message : error)
      if (!response.headersSent) response.writeHead(400).end()
    }
  })
}
