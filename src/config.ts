import { existsSync } from 'node:fs'
import { domainToASCII } from 'node:url'
import { isIP } from 'node:net'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { FormatRegistry, Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { SAMPLERS } from './tracing/tracing.ts'

// Every setting of the service, read from the environment once, here and nowhere else.

const integer = (initial: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({ default: initial, minimum, maximum, description })
const optionalInteger = (minimum: number, maximum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum, maximum, description }))
const text = (initial: string, description: string) => Type.String({ default: initial, description })
const list = (description: string) => Type.Array(Type.String(), { default: [], description })
const oneOf = <const Value extends string>(values: readonly Value[], initial: Value, description: string) => Type.Unsafe<Value>(Type.Union(values.map((value) => Type.Literal(value)), { default: initial, description }))
const headerValue = { pattern: '^[\\x20-\\x7e]+$', expects: 'a header value' }
/** As OpenTelemetry writes lists: percent-encoded where need be. */
const pairs = (description: string) => Type.String({ default: '', pattern: '^\\s*([^=,\\s]+\\s*=([^,%]|%[0-9A-Fa-f]{2})*(,|$))*$', expects: 'a list of name=value,name=value (percent-encoded where need be)', description })
const httpUrl = { format: 'http-url', expects: 'an http:// or https:// address without query or fragment' }
/** Everybody sees it, so it names no account. */
const publicUrl = { format: 'public-url', expects: 'an http:// or https:// address without user name, query or fragment' }
const isHttpUrl = (given: string): boolean => /^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/.test(given) && URL.canParse(given)
FormatRegistry.Set('http-url', isHttpUrl)
FormatRegistry.Set('public-url', (given) => isHttpUrl(given) && new URL(given).username === '' && new URL(given).password === '')

const DAY = 24 * 60 * 60
const MAX_INT = 2 ** 31 - 1

const Settings = Type.Object({
  HOST: text('127.0.0.1', 'Address to listen on'),
  PORT: integer(3000, 0, 65535, 'Port to listen on'),
  OPS_PORT: optionalInteger(0, 65535, 'Port of the second listener with the Prometheus metrics'),
  BASE_URL: Type.Optional(Type.String({ ...publicUrl, description: 'Public address of the service, without a slash at the end' })),
  LOG_LEVEL: Type.Union(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)), { default: 'info', description: 'Least level that is logged' }),
  LOG_FORMAT: Type.Union(['json', 'pretty'].map((format) => Type.Literal(format)), { default: 'json', description: 'Form of the lines that are logged; pretty is for development' }),
  LOG_PUBLIC_READS_SAMPLE: Type.Number({ default: 0, minimum: 0, maximum: 1, description: 'Share of the reads of pages and files that are logged' }),
  WEB_CONCURRENCY: integer(1, 0, 1024, 'Worker processes on the port; 0 is one per core'),
  TRUST_PROXY: list('Addresses and CIDR ranges of the proxies whose X-Forwarded-For is believed'),
  STRICT_TRANSPORT_SECURITY: Type.String({ ...headerValue, default: 'max-age=31536000', description: 'Strict-Transport-Security of all answers, when BASE_URL is https://' }),

  DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://', expects: 'a postgresql:// address', description: 'PostgreSQL; embedded when not set' })),
  DATABASE_POOL_SIZE: integer(10, 1, 1000, 'Connections to PostgreSQL per process (each worker is one)'),
  DATABASE_TIMEOUT_MS: integer(4000, 100, 60000, 'Longest wait for a connection or a query, in milliseconds'),
  REDIS_URL: Type.Optional(Type.String({ pattern: '^rediss?://', expects: 'a redis:// or rediss:// address', description: 'Redis; counters and cache in the process when not set' })),
  DATA_DIR: text('data', 'Folder of the embedded database'),
  MIGRATE_ON_START: Type.Boolean({ default: true, description: 'Apply outstanding migrations at start' }),

  JWT_SECRET: Type.Optional(Type.String({ description: 'Key of the access tokens, at least 32 bytes; required with DATABASE_URL' })),
  ACCESS_TOKEN_TTL: integer(15 * 60, 1, DAY, 'Life of an access token, in seconds'),
  REFRESH_TOKEN_TTL: integer(30 * DAY, 1, 365 * DAY, 'Life of a refresh token from its issue, in seconds'),
  SESSION_TTL: integer(180 * DAY, 1, 3650 * DAY, 'Longest life of a session however often it is refreshed, in seconds'),
  SIGN_IN_FAILURES_PER_ACCOUNT: integer(10, 1, MAX_INT, 'Failed sign-ins for one e-mail address in 15 minutes'),
  SIGN_IN_FAILURES_PER_ADDRESS: integer(30, 1, MAX_INT, 'Failed sign-ins from one client address in a minute'),
  SIGN_UPS_PER_ADDRESS: integer(60, 1, MAX_INT, 'Sign-ups from one client address in a minute'),
  REFRESHES_PER_ADDRESS: integer(120, 1, MAX_INT, 'Refreshes from one client address in a minute'),

  ALLOWED_HOSTS: list('Names, addresses and CIDR ranges whose public reads have the larger limit'),
  RATE_LIMIT_PUBLIC: integer(30, 1, MAX_INT, 'Public reads of one client address in a minute'),
  RATE_LIMIT_ALLOWED_HOSTS: integer(1000, 1, MAX_INT, 'The same for reads from an allowed host'),
  PUBLIC_CACHE_CONTROL: Type.String({ ...headerValue, default: 'public, max-age=0, must-revalidate', description: 'Cache-Control of public reads' }),
  CACHE_MAX_BYTES: integer(64 * 1024 * 1024, 0, 2 ** 40, 'Memory for cached documents per process, in bytes'),
  CACHE_MAX_STALE_SECONDS: integer(300, 0, DAY, 'How long cached documents are served while PostgreSQL is away, in seconds'),
  CORS_ORIGINS: list('Origins whose pages may call the management API from a browser'),
  MAX_DOCUMENT_BYTES: integer(1024 * 1024, 2, 256 * 1024 * 1024, 'Largest document, in bytes'),

  UPLOADS_DIR: text('uploads', 'Folder of the uploaded files, where UPLOADS_URL is not set'),
  UPLOADS_URL: Type.Optional(Type.String({ pattern: '^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\\w.-]+)*/?$', expects: 'a bucket such as s3://bucket or s3://bucket/prefix', description: 'Bucket of the uploaded files, instead of a folder' })),
  UPLOADS_PUBLIC_URL: Type.Optional(Type.String({ ...publicUrl, description: 'Address that the uploaded files are read under by the public, without a slash at the end' })),
  AWS_REGION: Type.Optional(Type.String({ pattern: '^[a-z0-9-]+$', expects: 'the name of a region, such as eu-central-1', description: 'Region of the bucket' })),
  AWS_ENDPOINT_URL_S3: Type.Optional(Type.String({ ...httpUrl, description: 'Address of an object storage other than Amazon S3' })),
  AWS_ACCESS_KEY_ID: Type.Optional(Type.String({ description: "Key of the object storage; without it the SDK's usual places are searched" })),
  AWS_SECRET_ACCESS_KEY: Type.Optional(Type.String({ description: 'Its secret' })),
  AWS_SESSION_TOKEN: Type.Optional(Type.String({ description: 'Of temporary keys' })),
  S3_FORCE_PATH_STYLE: Type.Optional(Type.Boolean({ description: 'The bucket is named in the path, not in the host' })),
  S3_TIMEOUT_MS: integer(5000, 100, 600000, 'Longest wait for an answer of the object storage, in milliseconds'),
  MAX_UPLOAD_BYTES: integer(25 * 1024 * 1024, 1, Number.MAX_SAFE_INTEGER, 'Largest upload, in bytes'),
  ALLOWED_UPLOAD_TYPES: list('Content types that may be uploaded, such as image/png or image/*; any when empty'),

  MAX_CONNECTIONS: integer(10000, 0, MAX_INT, 'Open connections per process, beyond which new ones are closed; 0 for any number'),
  HEADERS_TIMEOUT_MS: integer(20000, 100, 600000, 'Longest time that the headers of a request may take to arrive, in milliseconds'),
  BODY_TIMEOUT_MS: integer(50000, 100, 600000, 'Longest time that a JSON body may take to arrive, in milliseconds'),
  MAX_EVENT_LOOP_DELAY_MS: integer(500, 0, 60000, 'Mean delay of the event loop over a second, in milliseconds, beyond which management requests are refused; 0 for any'),
  MAX_HEAP_BYTES: integer(0, 0, Number.MAX_SAFE_INTEGER, 'JavaScript heap in bytes, beyond which management requests are refused; 0 for any'),
  MAX_RSS_BYTES: integer(0, 0, Number.MAX_SAFE_INTEGER, 'Memory of the process in bytes, beyond which management requests are refused; 0 for any'),
  SHUTDOWN_DELAY_MS: integer(1000, 0, 600000, 'How long new requests are still taken at the end, a part of SHUTDOWN_TIMEOUT_MS, in milliseconds'),
  SHUTDOWN_TIMEOUT_MS: integer(10000, 0, 600000, 'Longest wait for requests in flight at the end, in milliseconds'),

  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(Type.String({ ...httpUrl, description: 'Address of the OpenTelemetry collector that gets traces; none when not set' })),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/protobuf', 'http/json'], 'http/protobuf', 'How traces are written for the collector'),
  OTEL_EXPORTER_OTLP_HEADERS: pairs('Headers for the collector, such as a key'),
  OTEL_SERVICE_NAME: text('landfall', 'Name of the service in its traces'),
  OTEL_RESOURCE_ATTRIBUTES: pairs('What else every trace says of the service'),
  OTEL_TRACES_SAMPLER: oneOf(SAMPLERS, 'parentbased_always_on', 'Which traces are kept'),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({ default: 1, minimum: 0, maximum: 1, description: 'Share of the traces that the samplers by ratio keep' })
})

type SettingName = keyof typeof Settings.properties

/** The settings as the service uses them, frozen. */
export type Config = Readonly<Omit<Static<typeof Settings>, 'BASE_URL' | 'ALLOWED_HOSTS' | 'OTEL_EXPORTER_OTLP_HEADERS' | 'OTEL_RESOURCE_ATTRIBUTES'> & {
  /** Without a slash at the end; undefined until the port is known, when BASE_URL is not set. */
  BASE_URL: string | undefined
  ALLOWED_HOSTS: AllowedHosts
  OTEL_EXPORTER_OTLP_HEADERS: Record<string, string>
  OTEL_RESOURCE_ATTRIBUTES: Record<string, string>
}>

export interface AllowedHosts {
  /** Lower-case ASCII host names, matched exactly. */
  readonly names: readonly string[]
  /** The part behind `*.`, with its leading dot. */
  readonly suffixes: readonly string[]
  /** IPv4 and IPv6 addresses and CIDR ranges. */
  readonly networks: readonly string[]
}

/** A setting is missing or wrong; `message` has one line for each, with its name. */
export class ConfigError extends Error {
  constructor (problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
  }
}

/**
 * Reads the settings from an environment.
 *
 * @param env variables by name; an empty value counts as not set
 * @throws {ConfigError} naming every setting that can't be used
 */
export function loadConfig (env: Record<string, string | undefined>): Config {
  const problems: string[] = []
  const values: Record<string, unknown> = {}

  for (const [name, schema] of Object.entries(Settings.properties) as [SettingName, TSchema][]) {
    const given = env[name]?.trim()
    const value = given === undefined || given === '' ? schema.default : parse(schema, given)
    if (value !== undefined && !Value.Check(schema, value)) problems.push(`${name} must be ${expectation(schema)}`)
    values[name] = value
  }

  const config = values as Static<typeof Settings>
  const allowedHosts = splitAllowedHosts(config.ALLOWED_HOSTS, problems)
  for (const entry of config.TRUST_PROXY) {
    if (!isNetwork(entry)) problems.push(`TRUST_PROXY must list addresses or CIDR ranges, which "${entry}" is not`)
  }
  for (const entry of config.CORS_ORIGINS) {
    if (entry !== '*' && !isOrigin(entry)) problems.push(`CORS_ORIGINS must list origins such as https://app.example.com, which "${entry}" is not`)
  }
  for (const entry of config.ALLOWED_UPLOAD_TYPES) {
    if (!/^[\w.+-]+\/([\w.+-]+|\*)$/.test(entry)) problems.push(`ALLOWED_UPLOAD_TYPES must list content types such as image/png or image/*, which "${entry}" is not`)
  }
  if (config.DATABASE_URL === undefined && resolve(config.DATA_DIR) === resolve(config.UPLOADS_DIR)) {
    problems.push('UPLOADS_DIR must be another folder than DATA_DIR: uploads are for everybody, the database is not')
  }
  if (config.JWT_SECRET !== undefined && Buffer.byteLength(config.JWT_SECRET) < 32) {
    problems.push('JWT_SECRET must be at least 32 bytes long')
  }
  if (config.DATABASE_URL !== undefined && config.JWT_SECRET === undefined) {
    problems.push('JWT_SECRET must be set when DATABASE_URL is (make one with: openssl rand -hex 32)')
  }
  if (config.UPLOADS_URL !== undefined && (config.AWS_ACCESS_KEY_ID === undefined) !== (config.AWS_SECRET_ACCESS_KEY === undefined)) {
    problems.push('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set both or neither')
  }
  // The initial value is a part of whatever SHUTDOWN_TIMEOUT_MS is.
  if (env.SHUTDOWN_DELAY_MS?.trim() && config.SHUTDOWN_DELAY_MS > 0 && config.SHUTDOWN_DELAY_MS >= config.SHUTDOWN_TIMEOUT_MS) {
    problems.push(`SHUTDOWN_DELAY_MS must be less than SHUTDOWN_TIMEOUT_MS, which is ${config.SHUTDOWN_TIMEOUT_MS}: what is taken until then has to be finished, too`)
  }
  const workers = config.WEB_CONCURRENCY === 0 ? availableParallelism() : config.WEB_CONCURRENCY
  const missing = (['DATABASE_URL', 'REDIS_URL'] as const).filter((name) => config[name] === undefined)
  if (Number.isInteger(workers) && workers > 1 && missing.length > 0) {
    problems.push(`WEB_CONCURRENCY must be 1 without ${missing.join(' and ')}, which its ${workers} workers would share: set ${missing.length === 1 ? 'it' : 'both'}, or WEB_CONCURRENCY=1`)
  }
  const collectorHeaders = pairsIn(config.OTEL_EXPORTER_OTLP_HEADERS)
  for (const [name, value] of Object.entries(collectorHeaders)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\x20-\x7e]*$/.test(value)) problems.push(`OTEL_EXPORTER_OTLP_HEADERS must list headers, which "${name}" is not`)
  }
  if (problems.length > 0) throw new ConfigError(problems)

  return deepFreeze({
    ...config,
    WEB_CONCURRENCY: workers,
    BASE_URL: asSent(config.BASE_URL),
    UPLOADS_PUBLIC_URL: asSent(config.UPLOADS_PUBLIC_URL),
    ALLOWED_HOSTS: allowedHosts,
    OTEL_EXPORTER_OTLP_HEADERS: collectorHeaders,
    OTEL_RESOURCE_ATTRIBUTES: pairsIn(config.OTEL_RESOURCE_ATTRIBUTES),
    ALLOWED_UPLOAD_TYPES: config.ALLOWED_UPLOAD_TYPES.map((type) => type.toLowerCase()),
    CORS_ORIGINS: config.CORS_ORIGINS.map((origin) => origin.toLowerCase()), // as browsers send them
    DATA_DIR: resolve(config.DATA_DIR),
    UPLOADS_DIR: resolve(config.UPLOADS_DIR)
  })
}

/** All settings, for a person: what each is, and what it is when it isn't set (empty for none). */
export const describeSettings = (): { name: string, description: string, initial: string }[] =>
  Object.entries(Settings.properties as Record<string, TSchema>).map(([name, { description = '', default: initial = '' }]) => ({ name, description, initial: String(initial) }))

/** The process's variables, with those of a `.env` file in the working folder for the ones that are not set. */
export function readEnvironment (): Record<string, string | undefined> {
  if (existsSync('.env')) process.loadEnvFile('.env')
  return process.env
}

/** As URLs are written in answers: all ASCII, names in other scripts as Punycode. */
const asSent = (url: string | undefined): string | undefined =>
  url === undefined ? undefined : new URL(url).href.replace(/\/+$/, '')

function parse (schema: TSchema, given: string): unknown {
  if (schema.type === 'integer') return /^\d{1,16}$/.test(given) ? Number(given) : given
  if (schema.type === 'number') return /^\d{1,9}(\.\d{1,9})?$/.test(given) ? Number(given) : given
  if (schema.type === 'boolean') return given === 'true' ? true : given === 'false' ? false : given
  if (schema.type === 'array') return given.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '')
  return given
}

function expectation (schema: TSchema): string {
  if (schema.type === 'integer') return `a whole number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === 'number') return `a number from ${schema.minimum} to ${schema.maximum}`
  if (schema.type === 'boolean') return 'true or false'
  if (schema.anyOf) return `one of ${schema.anyOf.map((option: { const: string }) => option.const).join(', ')}`
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
    return text // no UTF-8
  }
}

function splitAllowedHosts (entries: readonly string[], problems: string[]): AllowedHosts {
  const names: string[] = []
  const suffixes: string[] = []
  const networks: string[] = []
  for (const entry of entries) {
    const wildcard = entry.startsWith('*.')
    const name = domainToASCII((wildcard ? entry.slice(2) : entry).toLowerCase())
    if (isNetwork(entry)) networks.push(entry)
    else if (!/^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(name) || isIP(name) !== 0) {
      problems.push(`ALLOWED_HOSTS must list host names (www.example.com, *.example.com), addresses or CIDR ranges, which "${entry}" is not`)
    } else if (wildcard) suffixes.push(`.${name}`)
    else names.push(name)
  }
  return { names, suffixes, networks }
}

function isNetwork (entry: string): boolean {
  const [address = '', prefix, ...rest] = entry.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128))
}

function isOrigin (entry: string): boolean {
  return URL.canParse(entry) && /^https?:$/.test(new URL(entry).protocol) && new URL(entry).origin === entry.toLowerCase()
}

function deepFreeze<T extends object> (value: T): Readonly<T> {
  for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) deepFreeze(inner)
  return Object.freeze(value)
}
