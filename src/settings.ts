import { Type } from '@sinclair/typebox'
import { allowedHost, headerValue, httpUrl, integer, list, mediaTypes, network, oneOf, optionalInteger,
  optionalText, origin, pairs, previewUrl, publicUrl, secret, share, text } from './setting-types.ts'

// The table of all settings. config.ts reads them from the environment; .env.example says more about each.

/** The samplers of OpenTelemetry's specification. */
const TRACES_SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio'
] as const

const CDN_KINDS = ['cloudflare', 'fastly', 'varnish', 'http'] as const
type CdnKind = typeof CDN_KINDS[number]

const DAY = 24 * 60 * 60
const MIB = 1024 * 1024
const MAX_INT = 2 ** 31 - 1
const MAX_SAFE = Number.MAX_SAFE_INTEGER

export const Settings = Type.Object({
  HOST: text('127.0.0.1', 'Address to listen on'),
  PORT: integer(3000, [0, 65535], 'Port to listen on'),
  OPS_PORT: optionalInteger([0, 65535], 'Port of the second listener with the Prometheus metrics'),
  BASE_URL: optionalText(publicUrl, 'Public address of the service, without a slash at the end'),
  LOG_LEVEL: oneOf(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
    'info',
    'Lowest level of messages that are logged'
  ),
  LOG_FORMAT: oneOf(['json', 'pretty'], 'json', 'Format of the log; pretty is for development'),
  LOG_PUBLIC_READS_SAMPLE: share(0, 'Share of public reads that are logged, from 0 to 1'),
  WEB_CONCURRENCY: integer(1, [0, 1024], 'Worker processes; 0 for one per core'),
  TRUST_PROXY: list('Addresses and CIDR ranges of trusted proxies, whose X-Forwarded-For is used', network),
  CONSOLE: Type.Boolean({ default: true, description: 'Serve the console, the web page for owners' }),
  PREVIEW_URL: optionalText(previewUrl, 'Address of the website of accounts that have set none'),
  STRICT_TRANSPORT_SECURITY: Type.String({
    ...headerValue,
    default: 'max-age=31536000',
    description: 'Strict-Transport-Security header, sent if BASE_URL is https://'
  }),

  DATABASE_URL: secret(
    { pattern: '^postgres(ql)?://', expects: 'a postgresql:// address' },
    'URL of PostgreSQL; if not set, an embedded PostgreSQL is used'
  ),
  DATABASE_POOL_SIZE: integer(10, [1, 1000], 'Connections to PostgreSQL of a process'),
  DATABASE_TIMEOUT_MS: integer(4000, [100, 60000], 'Time limit of a query with its wait for a connection'),
  REDIS_URL: secret(
    {
      format: 'redis-url',
      expects:
        'a redis:// or rediss:// address such as redis://host:6379/0, or several nodes of a cluster as ' +
        'in redis://a:7000,b:7000 (percent-encode special characters in a password)'
    },
    'URL of Redis, or of nodes of a Redis Cluster; if not set, each process counts limits and caches ' +
      'documents separately'
  ),
  DATA_DIR: text('data', 'Folder of the embedded database'),
  MIGRATE_ON_START: Type.Boolean({ default: true, description: 'Apply pending migrations at start' }),

  JWT_SECRET: secret({}, 'Key that signs access tokens, at least 32 bytes; required with DATABASE_URL'),
  JWT_SECRET_PREVIOUS: secret({}, 'The key before, whose access tokens are still accepted'),
  ACCESS_TOKEN_TTL: integer(15 * 60, [1, DAY], 'Lifetime of an access token, in seconds'),
  REFRESH_TOKEN_TTL: integer(30 * DAY, [1, 365 * DAY], 'Lifetime of a refresh token, in seconds'),
  SESSION_TTL: integer(180 * DAY, [1, 3650 * DAY], 'Lifetime of a session, in seconds'),
  SIGN_UP: oneOf(['open', 'closed'], 'open', 'Who may create accounts: everybody, or the operator'),
  SIGN_IN_FAILURES_PER_ACCOUNT: integer(10, [1, MAX_INT], 'Failed sign-ins for an account in 15 minutes'),
  SIGN_IN_FAILURES_PER_ADDRESS: integer(30, [1, MAX_INT], 'Failed sign-ins of a client address in a minute'),
  SIGN_UPS_PER_ADDRESS: integer(60, [1, MAX_INT], 'Sign-ups of a client address in a minute'),
  REFRESHES_PER_ADDRESS: integer(120, [1, MAX_INT], 'Refreshes of a client address in a minute'),
  PASSWORD_RESETS_PER_ADDRESS: integer(30, [1, MAX_INT], 'Password resets of a client address in a minute'),

  SMTP_URL: secret(
    {
      format: 'smtp-url',
      expects:
        'an smtp:// or smtps:// address such as smtps://user:password@mail.example.com (percent-encode ' +
        'special characters in a password)'
    },
    'URL of the mail server; if not set, the service sends no mail'
  ),
  MAIL_FROM: optionalText(
    {
      format: 'mail-sender',
      expects: 'a sender such as noreply@example.com or Landfall <noreply@example.com>'
    },
    'Sender of the mails; required with SMTP_URL'
  ),
  REQUIRE_CONFIRMED_EMAIL: Type.Boolean({
    default: false,
    description: 'Accounts may write only after they have confirmed their e-mail address'
  }),

  ALLOWED_HOSTS: list(
    'Host names, addresses and CIDR ranges that have the limit RATE_LIMIT_ALLOWED_HOSTS',
    allowedHost
  ),
  RATE_LIMIT_PUBLIC: integer(30, [1, MAX_INT], 'Public reads of a client address in a minute'),
  RATE_LIMIT_ALLOWED_HOSTS: integer(1000, [1, MAX_INT], 'The same from allowed hosts'),
  PUBLIC_CACHE_CONTROL: Type.String({
    ...headerValue,
    default: 'public, max-age=0, must-revalidate',
    description: 'Cache-Control of public reads'
  }),
  CACHE_MAX_BYTES: integer(64 * MIB, [0, 2 ** 40], 'Memory for cached documents of a process'),
  CACHE_MAX_STALE_SECONDS: integer(300, [0, DAY], 'How long the cache is used without PostgreSQL'),
  CORS_ORIGINS: list('Origins whose pages may call the management API from a browser', origin),
  MAX_DOCUMENT_BYTES: integer(MIB, [2, 256 * MIB], 'Largest document, in bytes'),
  REVISIONS_MAX: integer(100, [0, MAX_INT], 'Earlier versions of a page that are kept; 0 for none'),
  REVISIONS_DAYS: integer(90, [0, 36500], 'Days for which an earlier version is kept; 0 for ever'),
  REVISIONS_MAX_BYTES: integer(64 * MIB, [0, MAX_SAFE], 'Total size of these versions; 0 for none'),
  TRASH_DAYS: integer(30, [0, 36500], 'Days in which a deleted page can be restored; 0 for none'),
  WEBHOOKS: Type.Boolean({ default: true, description: 'Send messages about changes of pages to webhooks' }),
  WEBHOOK_NETWORKS: list(
    'Addresses and CIDR ranges beside the public ones that webhooks may reach, also by http',
    network
  ),
  CDN_PURGE: Type.Optional(Type.Unsafe<CdnKind>(Type.Union(CDN_KINDS.map((kind) => Type.Literal(kind)), {
    description: 'Cache in front of the service that is told what has changed'
  }))),
  CDN_PURGE_URL: Type.Array(Type.String(publicUrl), {
    default: [],
    expects: `a list of addresses, each ${publicUrl.expects}`,
    description: 'Where it is told; by default the API of Cloudflare or Fastly'
  }),
  CDN_PURGE_TOKEN: secret(
    { pattern: '^[\\x21-\\x7e]+$', expects: 'a token without white space' },
    'Token for CDN_PURGE_URL'
  ),
  CDN_PURGE_TARGET: optionalText(
    { pattern: '^[\\w-]+$', expects: 'the id of a zone or service' },
    'Zone of Cloudflare, or service of Fastly'
  ),
  SECRETS_KEY: secret(
    {},
    'Key of the secrets of webhooks, at least 32 bytes; derived from JWT_SECRET if not set'
  ),

  UPLOADS_DIR: text('uploads', 'Folder for uploaded files, used if UPLOADS_URL is not set'),
  UPLOADS_URL: optionalText({
    pattern: '^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\\w.-]+)*/?$',
    expects: 'a bucket such as s3://bucket or s3://bucket/prefix'
  }, 'Bucket for uploaded files, used instead of a folder'),
  UPLOADS_PUBLIC_URL: optionalText(publicUrl, 'Public address of the uploaded files'),
  AWS_REGION: optionalText(
    { pattern: '^[a-z0-9-]+$', expects: 'the name of a region, such as eu-central-1' },
    'Region of the bucket'
  ),
  AWS_ENDPOINT_URL_S3: optionalText(httpUrl, 'Endpoint of an object storage other than Amazon S3'),
  AWS_ACCESS_KEY_ID: optionalText({}, 'Access key of the object storage; without one, the AWS SDK looks'),
  AWS_SECRET_ACCESS_KEY: secret({}, 'Secret key that belongs to AWS_ACCESS_KEY_ID'),
  AWS_SESSION_TOKEN: secret({}, 'Session token of temporary credentials'),
  S3_FORCE_PATH_STYLE: Type
    .Optional(Type.Boolean({ description: 'Put the name of the bucket in the path, not in the host name' })),
  S3_TIMEOUT_MS: integer(5000, [100, 600000], 'Time limit for a response of the object storage'),
  MAX_UPLOAD_BYTES: integer(25 * MIB, [1, MAX_SAFE], 'Largest upload, in bytes'),
  ALLOWED_UPLOAD_TYPES: list(
    'Content types that may be uploaded, such as image/png or image/*; if empty, all types',
    mediaTypes
  ),
  IMAGE_WIDTHS: Type.Array(Type.Integer({ minimum: 1, maximum: 16383 }), {
    default: [320, 640, 960, 1280, 1920],
    maxItems: 20,
    uniqueItems: true,
    expects: 'at most 20 different whole numbers from 1 to 16383',
    description: 'Widths of the variants that pictures get, in pixels; if empty, pictures have no variants'
  }),
  IMAGE_MAX_PIXELS: integer(50_000_000, [1, 268_000_000], 'Larger pictures get no variants'),

  MAX_CONNECTIONS: integer(10000, [0, MAX_INT], 'Open connections of a process; 0 for no limit'),
  HEADERS_TIMEOUT_MS: integer(20000, [100, 600000], 'Time limit for the headers of a request'),
  BODY_TIMEOUT_MS: integer(50000, [100, 600000], 'Time limit for receiving a JSON body'),
  MAX_BODY_MEMORY_BYTES: integer(32 * MIB, [64 * 1024, 2 ** 40], 'Memory of a process for JSON bodies'),
  MAX_UNREAD_BYTES: integer(64 * MIB, [64 * 1024, 2 ** 40], 'Memory of a process for unread responses'),
  MAX_EVENT_LOOP_DELAY_MS: integer(
    500,
    [0, 60000],
    'Event loop delay above which management requests are refused; 0 for no limit'
  ),
  MAX_HEAP_BYTES: integer(0, [0, MAX_SAFE], 'Heap above which the same happens; 0 for no limit'),
  MAX_RSS_BYTES: integer(0, [0, MAX_SAFE], 'Memory above which the same happens; 0 for no limit'),
  SHUTDOWN_DELAY_MS: integer(1000, [0, 600000], 'How long a shutdown still accepts connections'),
  SHUTDOWN_TIMEOUT_MS: integer(10000, [0, 600000], 'Time limit of a shutdown, with SHUTDOWN_DELAY_MS'),

  OTEL_EXPORTER_OTLP_ENDPOINT: optionalText(httpUrl, 'Collector of traces; if not set, none are sent'),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/protobuf', 'http/json'], 'http/protobuf', 'Its protocol'),
  OTEL_EXPORTER_OTLP_HEADERS: pairs('Headers for the collector, such as a key', { secret: true }),
  OTEL_SERVICE_NAME: text('landfall', 'Name of the service in its traces'),
  OTEL_RESOURCE_ATTRIBUTES: pairs('More attributes of the service in its traces'),
  OTEL_TRACES_SAMPLER: oneOf(TRACES_SAMPLERS, 'parentbased_always_on', 'Selects the traces to keep'),
  OTEL_TRACES_SAMPLER_ARG: share(1, 'Share of the traces that the ratio samplers keep, from 0 to 1')
})
