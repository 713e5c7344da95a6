import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { Static, TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { hostName, isNetwork } from './setting-types.ts'
import { Settings } from './settings.ts'

export { redisNodes } from './setting-types.ts'

// The only file that reads settings from the environment.

type SettingName = keyof typeof Settings.properties

/** The validated settings. The object is frozen. */
export type Config = Readonly<
  Omit<
    Static<typeof Settings>,
    'BASE_URL' | 'ALLOWED_HOSTS' | 'OTEL_EXPORTER_OTLP_HEADERS' | 'OTEL_RESOURCE_ATTRIBUTES'
  > & {
    /** Without a slash at the end. If undefined, the port of the service decides (`baseUrl` in app.ts). */
    BASE_URL: string | undefined
    ALLOWED_HOSTS: AllowedHosts
    OTEL_EXPORTER_OTLP_HEADERS: Record<string, string>
    OTEL_RESOURCE_ATTRIBUTES: Record<string, string>
  }
>

/** Whether the service sends mail. */
export const sendsMail = ({ SMTP_URL }: Pick<Config, 'SMTP_URL'>): boolean => SMTP_URL !== undefined

export type Environment = Record<string, string | undefined>

export interface AllowedHosts {
  /** Lower-case ASCII host names, matched exactly. */
  readonly names: readonly string[]
  /** Endings of host names: `*.example.com` is stored as `.example.com`. */
  readonly suffixes: readonly string[]
  /** IPv4 and IPv6 addresses and CIDR ranges. */
  readonly networks: readonly string[]
}

/** Settings are missing or invalid. `message` has one line per problem, which names the setting. */
export class ConfigError extends Error {
  constructor (problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
  }
}

/**
 * Reads the settings from an environment. A setting that holds a secret can also be in a file, which
 * `<NAME>_FILE` names.
 *
 * @param env variables by name; an empty value counts as not set, except for lists, where it is an empty list
 * @throws {ConfigError} if settings are missing or invalid
 */
export function loadConfig (env: Environment): Config {
  const problems: string[] = []
  const values: Record<string, unknown> = {}

  for (const [name, schema] of Object.entries(Settings.properties) as [SettingName, TSchema][]) {
    const given = schema.secret === true ? readSecret(name, env, problems) : env[name]?.trim()
    const isMissing = given === undefined || (given === '' && schema.type !== 'array')
    const value = isMissing ? schema.default : parse(schema, given)
    if (value !== undefined && !Value.Check(schema, value)) {
      problems.push(...describeProblems(name, schema, value))
    }
    values[name] = value
  }

  const config = values as Static<typeof Settings>
  const workers = config.WEB_CONCURRENCY === 0 ? availableParallelism() : config.WEB_CONCURRENCY
  const collectorHeaders = pairsIn(config.OTEL_EXPORTER_OTLP_HEADERS)
  for (const [name, value] of Object.entries(collectorHeaders)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\x20-\x7e]*$/.test(value)) {
      problems.push(`OTEL_EXPORTER_OTLP_HEADERS must list valid headers, but "${name}" is invalid`)
    }
  }
  checkCombinations(config, workers, env, problems)
  if (problems.length > 0) throw new ConfigError(problems)

  return deepFreeze({
    ...config,
    WEB_CONCURRENCY: workers,
    BASE_URL: asSent(config.BASE_URL),
    UPLOADS_PUBLIC_URL: asSent(config.UPLOADS_PUBLIC_URL),
    ALLOWED_HOSTS: splitAllowedHosts(config.ALLOWED_HOSTS),
    OTEL_EXPORTER_OTLP_HEADERS: collectorHeaders,
    OTEL_RESOURCE_ATTRIBUTES: pairsIn(config.OTEL_RESOURCE_ATTRIBUTES),
    ALLOWED_UPLOAD_TYPES: config.ALLOWED_UPLOAD_TYPES.map((type) => type.toLowerCase()),
    CORS_ORIGINS: config.CORS_ORIGINS.map((origin) => origin.toLowerCase()), // as browsers send them
    DATA_DIR: resolve(config.DATA_DIR),
    UPLOADS_DIR: resolve(config.UPLOADS_DIR)
  })
}

/** The value of a setting that holds a secret, from the environment or from the file that NAME_FILE names. */
function readSecret (name: SettingName, env: Environment, problems: string[]): string | undefined {
  const given = env[name]?.trim()
  const path = env[fileSetting(name)]?.trim()
  if (path === undefined || path === '') return given
  if (given !== undefined && given !== '') {
    problems.push(`${fileSetting(name)} must not be set together with ${name}`)
    return undefined
  }
  try {
    const content = readFileSync(path, 'utf8').trim()
    if (content !== '') return content
    problems.push(`${fileSetting(name)} must name a file that is not empty, but ${path} is`)
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? String(error)
    problems.push(`${fileSetting(name)} must name a file that can be read: ${path} failed (${reason})`)
  }
  return undefined
}

const fileSetting = (name: string): string => `${name}_FILE`

/** The names of the settings that can be read from files, such as `JWT_SECRET_FILE`. */
export const FILE_SETTINGS: readonly string[] = Object.entries(Settings.properties as Record<string, TSchema>)
  .filter(([, { secret }]) => secret === true)
  .map(([name]) => fileSetting(name))

/** One sentence, or one for each wrong entry of a list. */
function describeProblems (name: string, schema: TSchema, value: unknown): string[] {
  const { expects } = schema.items ?? {}
  if (expects === undefined || schema.expects !== undefined) return [`${name} must be ${expectation(schema)}`]
  const wrong = (value as unknown[]).filter((entry) => !Value.Check(schema.items, entry))
  return wrong.map((entry) => `${name} must list ${expects}, not "${entry}"`)
}

/** Checks rules that concern several settings. */
function checkCombinations (
  config: Static<typeof Settings>,
  workers: number,
  env: Environment,
  problems: string[]
): void {
  const isShort = (key: string | undefined) => key !== undefined && Buffer.byteLength(key) < 32
  const hasOne = (one: unknown, other: unknown) => (one === undefined) !== (other === undefined)
  const hasFileProblem = (name: string) => problems.some((problem) => problem.startsWith(fileSetting(name)))
  const isWithoutSecret = config.DATABASE_URL !== undefined && config.JWT_SECRET === undefined &&
    !hasFileProblem('JWT_SECRET')
  const { CDN_PURGE: cdn } = config
  const isApi = cdn === 'cloudflare' || cdn === 'fastly'
  const { length: urlCount } = config.CDN_PURGE_URL
  const sendsMail = config.SMTP_URL !== undefined
  // The default of SHUTDOWN_DELAY_MS is not checked, so that a short SHUTDOWN_TIMEOUT_MS is valid by itself.
  const isDelayTooLong = env.SHUTDOWN_DELAY_MS?.trim() && config.SHUTDOWN_DELAY_MS > 0 &&
    config.SHUTDOWN_DELAY_MS >= config.SHUTDOWN_TIMEOUT_MS
  const missing = (['DATABASE_URL', 'REDIS_URL'] as const).filter((name) => config[name] === undefined)

  const rules: [isBroken: unknown, sentence: string][] = [
    [
      config.DATABASE_URL === undefined && resolve(config.DATA_DIR) === resolve(config.UPLOADS_DIR),
      'UPLOADS_DIR must differ from DATA_DIR, because uploads are public and the database is not'
    ],
    [isShort(config.JWT_SECRET), 'JWT_SECRET must be at least 32 bytes long'],
    [isShort(config.SECRETS_KEY), 'SECRETS_KEY must be at least 32 bytes long'],
    [isShort(config.JWT_SECRET_PREVIOUS), 'JWT_SECRET_PREVIOUS must be at least 32 bytes long'],
    [
      isWithoutSecret,
      'JWT_SECRET must be set when DATABASE_URL is set (generate one with: openssl rand -hex 32)'
    ],
    [
      config.UPLOADS_URL !== undefined && hasOne(config.AWS_ACCESS_KEY_ID, config.AWS_SECRET_ACCESS_KEY),
      'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together'
    ],
    [
      sendsMail && config.MAIL_FROM === undefined,
      'MAIL_FROM must be set when SMTP_URL is set, because mails need a sender'
    ],
    [
      sendsMail && config.BASE_URL === undefined,
      'BASE_URL must be set when SMTP_URL is set, because mails contain links'
    ],
    [
      config.REQUIRE_CONFIRMED_EMAIL === true && !sendsMail,
      'SMTP_URL must be set when REQUIRE_CONFIRMED_EMAIL is true, because a mail confirms the address'
    ],
    [
      isApi && config.CDN_PURGE_TARGET === undefined,
      'CDN_PURGE_TARGET must be set when CDN_PURGE is cloudflare or fastly: the id of the zone or service'
    ],
    [isApi && urlCount > 1, 'CDN_PURGE_URL must be a single address when CDN_PURGE is cloudflare or fastly'],
    [
      (cdn === 'http' || cdn === 'varnish') && urlCount === 0,
      `CDN_PURGE_URL must be set when CDN_PURGE is ${cdn}`
    ],
    [
      (isApi || cdn === 'http') && config.CDN_PURGE_TOKEN === undefined && !hasFileProblem('CDN_PURGE_TOKEN'),
      `CDN_PURGE_TOKEN must be set when CDN_PURGE is ${cdn}`
    ],
    [
      isDelayTooLong,
      `SHUTDOWN_DELAY_MS must be less than SHUTDOWN_TIMEOUT_MS, which is ${config.SHUTDOWN_TIMEOUT_MS}: ` +
      'requests that are accepted during the delay need time to finish'
    ],
    [
      Number.isInteger(workers) && workers > 1 && missing.length > 0,
      `WEB_CONCURRENCY must be 1 without ${missing.join(' and ')}, because its ${workers} workers must ` +
      `share ${missing.length === 1 ? 'it: set it' : 'them: set both'}, or WEB_CONCURRENCY=1`
    ]
  ]
  problems.push(...rules.filter(([isBroken]) => isBroken).map(([, sentence]) => sentence))
}

/** Describes all settings for the command line. `initial` is the default value. */
export const describeSettings = (): {
  name: keyof Config
  description: string
  initial: string
  isSecret: boolean
}[] =>
  (Object.entries(Settings.properties) as [keyof Config, TSchema][]).map((
    [name, { description = '', default: initial = '', secret: isSecret = false }]
  ) => ({ name, description, initial: String(initial), isSecret }))

/** Returns the variables of `.env` in the working folder; none without this file. */
export const readEnvFile = (): Environment => existsSync('.env') ? parseEnv(readFileSync('.env', 'utf8')) : {}

/** Returns the environment. Variables that aren't set are read from `.env` in the working folder. */
export function readEnvironment (): Environment {
  if (existsSync('.env')) process.loadEnvFile('.env')
  return process.env
}

/** Converts a base URL to ASCII (Punycode, percent-encoding), without a slash at the end. */
const asSent = (url: string | undefined): string | undefined =>
  url === undefined ? undefined : new URL(url).href.replace(/\/+$/, '')

function parse (schema: TSchema, given: string): unknown {
  if (schema.type === 'integer') return /^\d{1,16}$/.test(given) ? Number(given) : given
  if (schema.type === 'number') return /^\d{1,9}(\.\d{1,9})?$/.test(given) ? Number(given) : given
  if (schema.type === 'boolean') return given === 'true' ? true : given === 'false' ? false : given
  if (schema.type === 'array') {
    const entries = given.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '')
    return entries.map((entry) => parse(schema.items, entry))
  }
  return given
}

function expectation (schema: TSchema): string {
  if (schema.type === 'integer') return `a whole number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === 'number') return `a number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === 'boolean') return 'true or false'
  if (schema.anyOf) {
    return `one of ${schema.anyOf.map((option: { const: string }) => option.const).join(', ')}`
  }
  return schema.expects
}

function pairsIn (list: string): Record<string, string> {
  return Object.fromEntries(list.split(',').filter((entry) => entry.includes('=')).map((entry) => {
    const at = entry.indexOf('=')
    return [decoded(entry.slice(0, at).trim()), decoded(entry.slice(at + 1).trim())]
  }))
}

function decoded (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // the percent-encoding is invalid
  }
}

function splitAllowedHosts (entries: readonly string[]): AllowedHosts {
  const hosts = entries.filter((entry) => !isNetwork(entry))
  const isWildcard = (host: string): boolean => host.startsWith('*.')
  return {
    names: hosts.filter((host) => !isWildcard(host)).map(hostName),
    suffixes: hosts.filter(isWildcard).map((host) => `.${hostName(host)}`),
    networks: entries.filter(isNetwork)
  }
}

function deepFreeze<T extends object> (value: T): Readonly<T> {
  for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) deepFreeze(inner)
  return Object.freeze(value)
}
