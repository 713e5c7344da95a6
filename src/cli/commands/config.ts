import { describeSettings, loadConfig, readEnvFile, readEnvironment, type Config,
  type Environment } from '../../config.ts'
import { embeddedSecret } from '../../infra/pglite/embedded.ts'
import { defaultSecretsKey } from '../../infra/system/identifiers.ts'
import { findUnknownNames } from '../misspelt-names.ts'
import { formatTable, print } from '../output.ts'
import type { ExitCode } from '../run.ts'

interface Options {
  readonly check?: true
  readonly secretsKey?: true
}

/**
 * Prints the settings in force and where each comes from, without secrets; or only checks them, or prints the
 * key from which secrets are derived.
 *
 * @throws {ConfigError} when settings are missing or invalid
 */
export async function showConfig ({ check, secretsKey }: Options): Promise<ExitCode> {
  const environment = readEnvironment()
  const file = readEnvFile()
  const config = loadConfig(environment)
  if (secretsKey === true) {
    const { DATA_DIR, JWT_SECRET, SECRETS_KEY } = config
    print(`${SECRETS_KEY ?? defaultSecretsKey(JWT_SECRET ?? await embeddedSecret(DATA_DIR))}\n`)
    return
  }
  const unknown = findUnknownNames(environment, file)
  for (const { sentence } of unknown) process.stderr.write(`${sentence}\n`)
  if (check === true) {
    if (unknown.some(({ isMisspelt }) => isMisspelt)) return 1
    print('The settings are valid\n')
    return
  }
  const rows = describeSettings().map(({ name, isSecret }) => [
    name,
    isSecret && config[name] !== undefined && config[name] !== '' ? '(hidden)'
      : withoutPassword(formatValue(config[name], environment[name])),
    sourceOf(name, environment, file)
  ])
  print(formatTable([['SETTING', 'VALUE', 'FROM'], ...rows]))
}

function formatValue (value: Config[keyof Config], given = ''): string {
  if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) return '(none)'
  if (Array.isArray(value)) return value.join(',')
  if (typeof value === 'object') return given.trim() === '' ? '(none)' : given.trim()
  return String(value)
}

const withoutPassword = (value: string): string => value.replace(/:\/\/[^/@]*@/, '://(hidden)@')

function sourceOf (name: string, environment: Environment, file: Environment): string {
  for (const variable of [name, `${name}_FILE`]) {
    const value = environment[variable]
    if (value === undefined || value.trim() === '') continue
    const place = file[variable] === value ? '.env' : 'environment'
    return variable === name ? place : `${variable} (${place})`
  }
  return 'default'
}
