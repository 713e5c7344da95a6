/** A message of a webhook. It tells a state: read the page if you need its document. */
export type WebhookMessage = {
  readonly type: 'page.published' | 'page.unpublished' | 'page.deleted'
  /** Time of the change (RFC 3339). */
  readonly timestamp: string
  readonly data: {
    readonly page: { readonly id: string, readonly public_id: string }
    /** Ignore a message with a smaller version than the last one of the page. */
    readonly version: number
    /** The ETag of the document; null if readers don't get one. */
    readonly etag: string | null
    readonly author: { readonly type: 'user' | 'api_key', readonly name: string } | null
    /** Changes that the message stands for besides the last one. */
    readonly merged: number
  }
} | {
  readonly type: 'pages.changed'
  readonly timestamp: string
  readonly data: { readonly merged: number, readonly since: string }
} | {
  readonly type: 'webhook.test'
  readonly timestamp: string
  readonly data: Record<string, never>
}

/** The headers of a request: those of `fetch` or of Node. */
type RequestHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

/** The message is not from the service, or was sent too long ago. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
}

const TOLERANCE_SECONDS = 5 * 60
const SIGNATURE_BYTES = 32
/** Signatures that are checked. Each reads the whole body, and strangers can send any number. */
const MAX_SIGNATURES = 10

/**
 * Checks the signature of a message, and returns it. Works where `crypto.subtle` does: in Node and workers.
 *
 * @param body the body of the request, exactly as it was received
 * @param secret `whsec_…`, or several while the secret is being replaced
 * @throws {WebhookVerificationError}
 */
export async function verifyWebhook (
  body: string | Uint8Array,
  headers: RequestHeaders,
  secret: string | readonly string[]
): Promise<WebhookMessage> {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => {
    const value = 'get' in headers && typeof headers.get === 'function' ? headers.get(name)
      : (headers as Readonly<Record<string, unknown>>)[name]
    if (typeof value !== 'string') throw new WebhookVerificationError(`The header ${name} is missing`)
    return value
  }) as [string, string, string]
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError('The time of the message is more than five minutes from now')
  }
  const text = typeof body === 'string' ? body : new TextDecoder('utf-8', { ignoreBOM: true }).decode(body)
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${text}`)
  const given = signatures.split(' ').filter((one) => one.startsWith('v1,'))
    .map((one) => bytesOf(one.slice(3)))
    .filter(({ length }) => length === SIGNATURE_BYTES)
    .slice(0, MAX_SIGNATURES)
  let isValid = false
  for (const one of typeof secret === 'string' ? [secret] : secret) {
    const key = await importKey(one)
    // `verify` compares in constant time.
    for (const signature of given) {
      isValid = await crypto.subtle.verify('HMAC', key, signature, signed) || isValid
    }
  }
  if (!isValid) throw new WebhookVerificationError('The signature does not belong to this message and secret')
  return JSON.parse(text) as WebhookMessage
}

async function importKey (secret: string) {
  const bytes = /^whsec_[A-Za-z0-9+/]{32,}=*$/.test(secret) ? bytesOf(secret.slice(6)) : new Uint8Array()
  if (bytes.length === 0) throw new TypeError('The secret of a webhook is whsec_ and base64')
  return await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

/** Decodes base64; text that isn't is nothing. */
function bytesOf (base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return new Uint8Array()
  }
}
