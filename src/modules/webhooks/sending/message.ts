import { createHmac } from 'node:crypto'
import { entityTag } from '../../../http/content-encoding.ts'
import { BATCH_EVENT } from '../../landing-pages/index.ts'
import { TEST_EVENT } from '../webhook-repository.ts'
import type { OutgoingMessage } from './outgoing-repository.ts'

/** Returns the body of a message, which is the same at each attempt. It tells a state, never a document. */
export const bodyOf = (message: OutgoingMessage): string =>
  JSON.stringify({ type: message.type, timestamp: message.changedAt.toISOString(), data: dataOf(message) })

function dataOf (message: OutgoingMessage): object {
  const { type, merged, contentHash, authorType, authorName } = message
  if (type === TEST_EVENT) return {}
  if (type === BATCH_EVENT) return { merged, since: message.createdAt.toISOString() }
  return {
    page: { id: message.pageId, public_id: message.publicId },
    version: Number(message.version),
    etag: contentHash === null ? null : entityTag(contentHash),
    author: authorType === null ? null : { type: authorType, name: authorName },
    merged
  }
}

// Signatures of Standard Webhooks 1.0.0.

/** How a secret is shown to the owner of a webhook. */
export const formatSecret = (secret: Buffer): string => `whsec_${secret.toString('base64')}`

/**
 * Returns the headers that identify and sign a message.
 *
 * @param at the time of the attempt, in milliseconds since 1970; receivers refuse old ones
 * @param secrets each signs the message
 */
export function signatureHeaders (
  id: string,
  body: string,
  at: number,
  secrets: readonly Buffer[]
): Record<string, string> {
  const seconds = Math.floor(at / 1000)
  const sign = (secret: Buffer) =>
    `v1,${createHmac('sha256', secret).update(`${id}.${seconds}.${body}`).digest('base64')}`
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': secrets.map(sign).join(' ')
  }
}
