import { createHmac } from 'node:crypto'

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
