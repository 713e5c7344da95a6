import type { FastifyBaseLogger } from 'fastify'

/** The events of the audit trail. docs/audit.md describes them and their fields. */
export type AuditEvent =
  | 'signed_up'
  | 'signed_in'
  | 'sign_in_failed'
  | 'session_refreshed'
  | 'token_replayed'
  | 'signed_out'
  | 'session_ended'
  | 'settings_changed'
  | 'password_changed'
  | 'password_refused'
  | 'password_reset_requested'
  | 'password_reset'
  | 'email_confirmation_requested'
  | 'email_confirmed'
  | 'api_key_created'
  | 'api_key_deleted'
  | 'preview_link_created'
  | 'preview_link_deleted'
  | 'webhook_created'
  | 'webhook_changed'
  | 'webhook_deleted'
  | 'webhook_secret_replaced'
  | 'account_deleted'
  | 'limit_met'
  | 'created'
  | 'command'

/** The values are ids, names, numbers and keyed hashes; never tokens, e-mail addresses or documents. */
export type AuditFields = Readonly<Record<string, string | number | readonly string[] | undefined>>

/** Writes a line of the audit trail. */
export function audit (log: FastifyBaseLogger, event: AuditEvent, fields: AuditFields): void {
  log.info({ audit: event, ...fields }, 'audit')
}
