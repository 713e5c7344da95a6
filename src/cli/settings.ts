import { loadConfig, readEnvironment, type Config } from '../config.ts'

/**
 * The settings of a command that doesn't serve: it needs no key of the access tokens, and nothing that workers share.
 *
 * @throws {ConfigError} naming every setting that can't be used
 */
export function commandSettings (): Config {
  const environment = readEnvironment()
  return loadConfig({ ...environment, WEB_CONCURRENCY: '1', JWT_SECRET: environment.JWT_SECRET || 'not used by commands'.padEnd(32, '.') })
}
