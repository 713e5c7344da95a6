import { loadConfig, readEnvironment, type Config } from '../config.ts'

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
