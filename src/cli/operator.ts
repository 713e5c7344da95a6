import { loadConfig, readEnvironment, type Config } from '../config.ts'
import { audit, type AuditFields } from '../infra/telemetry/audit.ts'
import { createCommandLogger } from '../infra/telemetry/logger.ts'

// What the commands of operators share.

/**
 * Loads the settings of a command other than `serve`. Such a command needs no JWT_SECRET and has no workers,
 * so the rules for JWT_SECRET and WEB_CONCURRENCY don't apply.
 *
 * @throws {ConfigError} the message names every invalid setting
 */
export function loadCommandConfig (): Config {
  const environment = readEnvironment()
  return loadConfig({
    ...environment,
    WEB_CONCURRENCY: '1',
    JWT_SECRET_FILE: undefined,
    JWT_SECRET_PREVIOUS_FILE: undefined,
    JWT_SECRET: environment.JWT_SECRET || 'not used by commands'.padEnd(32, '.')
  })
}

/**
 * Writes a line of the audit trail about what a command has changed, to standard error. On a terminal the
 * person has already read what the command did.
 */
export function auditCommand (command: string, fields: AuditFields): void {
  if (process.stderr.isTTY) return
  audit(createCommandLogger(), 'command', { command, uid: process.getuid?.(), ...fields })
}
