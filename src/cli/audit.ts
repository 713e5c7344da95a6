import { audit, type AuditFields } from '../infra/telemetry/audit.ts'
import { createCommandLogger } from '../infra/telemetry/logger.ts'

/**
 * Writes a line of the audit trail about what a command has changed, to standard error. On a terminal the
 * person has already read what the command did.
 */
export function auditCommand (command: string, fields: AuditFields): void {
  if (process.stderr.isTTY) return
  audit(createCommandLogger(), 'command', { command, uid: process.getuid?.(), ...fields })
}
