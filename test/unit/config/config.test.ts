import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ConfigError, FILE_SETTINGS, loadConfig, redisNodes } from '../../../src/config.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { buildTestApp, createPage, signUp } from '../../helpers/app.ts'

const problemsOf = (env: Record<string, string>): string[] => {
  try {
    loadConfig(env)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.message.split('\n')
  }
}

t.test('an empty value counts as not set, and the configuration is frozen', async (t) => {
  t.same(loadConfig({ PORT: '', JWT_SECRET: '  ' }), loadConfig({}))
  t.throws(() => {
    ;(loadConfig({}) as { PORT: number }).PORT = 1
  })
})

t.test('REDIS_URL names one server, or several nodes of a cluster', (t) => {
  for (
    const [given, nodes] of [
      ['redis://host', ['redis://host']],
      ['rediss://user:a,b@host:6380/2?family=6', ['rediss://user:a,b@host:6380/2?family=6']],
      ['redis://a,b:7001', ['redis://a', 'redis://b:7001']],
      ['redis://a:7000,b:7001/0', ['redis://a:7000/0', 'redis://b:7001/0']],
      ['rediss://user:x,%40y@a:7000,[::1]:7001', [
        'rediss://user:x,%40y@a:7000',
        'rediss://user:x,%40y@[::1]:7001'
      ]],
      ['redis://one:7000,one:7000', ['redis://one:7000', 'redis://one:7000']]
    ] as [string, string[]][]
  ) {
    t.equal(loadConfig({ REDIS_URL: given }).REDIS_URL, given)
    t.same(redisNodes(given), nodes)
  }
  t.end()
})

t.test('one line names an invalid setting', async (t) => {
  // Settings that others need.
  const VALID = { JWT_SECRET: 'x'.repeat(32), BASE_URL: 'http://x', MAIL_FROM: 'a@example.com' }
  const urls = [
    ...['https://exa mple.com', 'https://exa\tmple.com', 'https://[::1', 'https://example.com:70000'],
    ...['https://a%20b', 'https://user@example.com', 'https://:secret@example.com']
  ]
  const takesAnyText = new Set([
    ...['HOST', 'DATA_DIR', 'UPLOADS_DIR', 'OTEL_SERVICE_NAME'],
    ...['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']
  ])
  const wrong: Record<string, string[]> = {
    PORT: ['x', '65536', '-1', '3000.5', '1e3', '0x10'],
    BASE_URL: [
      ...urls,
      'example.com',
      'ftp://example.com',
      'https://example.com?x',
      'https://example.com/#x'
    ],
    LOG_LEVEL: ['loud'],
    WEB_CONCURRENCY: ['-1', 'two', '2'],
    TRUST_PROXY: ['true', '10.0.0.0/33', '10.0.0.1,proxy.example'],
    DATABASE_URL: ['mysql://x'],
    REDIS_URL: [
      ...['http://x', 'redis://host:port', 'redis://:pass/word@host', 'redis://host/name'],
      ...['redis://a:7000,b:port', 'redis://a:7000,', 'redis://a:7000, b:7000'],
      ...['redis://a:7000,redis://b:7000', 'redis://a:7000,b:7000/1', 'redis://a:7000,b:7000?family=6'],
      ...['redis://:pass/word@a:7000,b:7000', 'a:7000,b:7000']
    ],
    MIGRATE_ON_START: ['yes'],
    JWT_SECRET: ['too short'],
    ALLOWED_HOSTS: ['https://example.com', 'a.example,*.*.example', '300.1.1.1', 'example.com:80'],
    RATE_LIMIT_PUBLIC: ['0', '5s'],
    PUBLIC_CACHE_CONTROL: ['a\nb'],
    CDN_PURGE_URL: ['varnish:6081', 'http://a,b', 'http://user@a'],
    CDN_PURGE_TOKEN: ['two words'],
    CDN_PURGE_TARGET: ['a/b'],
    CORS_ORIGINS: ['example.com', 'https://example.com/path'],
    UPLOADS_URL: ['https://bucket', 's3://', 's3://Bucket', 's3://bucket/a b'],
    UPLOADS_PUBLIC_URL: [...urls, 'cdn.example.com'],
    PREVIEW_URL: [
      ...['http://www.example.com/{public_id}', 'https://www.example.com/{page}'],
      `https://www.example.com/${'x'.repeat(2048)}`
    ],
    AWS_ENDPOINT_URL_S3: ['localhost:9000', 'http://[::1'],
    SMTP_URL: [
      ...['mail.example.com', 'http://mail.example.com', 'smtp://', 'smtp://user@', 'smtp://host:port'],
      ...['smtp://host:70000', 'smtp://host/path', 'smtp://host?x=1', 'smtp://user:pass/word@host'],
      'smtp://a b'
    ],
    MAIL_FROM: [
      ...['Landfall', 'a@b@c', '<a@b>', 'Landfall <a>', 'Landfall <a@b', 'A, B <a@b>', 'a@b, c@d'],
      ...['A "B" <a@b>', 'x\r\nBcc: a@b <a@b>', 'a@b <c@d>', '"a b"@c', 'a\u0000@b']
    ],
    AWS_REGION: ['EU West'],
    OTEL_EXPORTER_OTLP_ENDPOINT: ['collector:4318'],
    OTEL_EXPORTER_OTLP_HEADERS: ['key', 'key=%zz', 'a:b=c', 'key=%0d%0a'],
    OTEL_TRACES_SAMPLER_ARG: ['1.5'],
    OTEL_RESOURCE_ATTRIBUTES: ['a=b,c'],
    ALLOWED_UPLOAD_TYPES: ['png'],
    IMAGE_WIDTHS: ['320,wide', '320,320', '0']
  }
  for (const name of Object.keys(loadConfig({})).filter((name) => !takesAnyText.has(name))) {
    for (const value of ['a\u0001b', ...wrong[name] ?? []]) {
      const problems = problemsOf({ ...VALID, [name]: value })
      t.equal(problems.length, 1, `${name}=${value}`)
      t.match(problems[0], new RegExp(`^${name} must `))
    }
  }
  t.match(problemsOf({ DATABASE_URL: 'postgresql://x/y' }), [/^JWT_SECRET must be set when DATABASE_URL is/])
  t.match(problemsOf({ UPLOADS_URL: 's3://bucket/prefix/', AWS_ACCESS_KEY_ID: 'x' }), [
    /^AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together/
  ])
  t.match(problemsOf({ SHUTDOWN_DELAY_MS: '10000' }), [
    /^SHUTDOWN_DELAY_MS must be less than SHUTDOWN_TIMEOUT_MS, which is 10000: /
  ])
  t.match(
    loadConfig({ SHUTDOWN_TIMEOUT_MS: '0' }),
    { SHUTDOWN_DELAY_MS: 1000 },
    'the default is valid with any time-out'
  )
  t.match(loadConfig({ SHUTDOWN_DELAY_MS: '0', SHUTDOWN_TIMEOUT_MS: '0' }), { SHUTDOWN_DELAY_MS: 0 })
  t.equal(problemsOf({ PORT: 'x', LOG_LEVEL: 'loud', BASE_URL: 'nowhere' }).length, 3, 'all problems at once')
})

t.test('secrets can be read from files, and a wrong file is named without its content', async (t) => {
  const folder = t.testdir({
    secret: `${'s'.repeat(32)}\n`,
    url: 'redis://:hunter2@host:6379/1\n',
    empty: '\n'
  })
  const file = (name: string) => join(folder, name)
  t.match(loadConfig({ JWT_SECRET_FILE: file('secret'), REDIS_URL_FILE: file('url') }), {
    JWT_SECRET: 's'.repeat(32),
    REDIS_URL: 'redis://:hunter2@host:6379/1'
  })
  t.same(FILE_SETTINGS, [
    ...'DATABASE_URL_FILE REDIS_URL_FILE JWT_SECRET_FILE JWT_SECRET_PREVIOUS_FILE'.split(' '),
    ...'SMTP_URL_FILE CDN_PURGE_TOKEN_FILE SECRETS_KEY_FILE AWS_SECRET_ACCESS_KEY_FILE'.split(' '),
    ...'AWS_SESSION_TOKEN_FILE OTEL_EXPORTER_OTLP_HEADERS_FILE'.split(' ')
  ])
  const database = { DATABASE_URL: 'postgresql://x/y' }
  t.same(problemsOf({ ...database, JWT_SECRET_FILE: file('missing') }), [
    `JWT_SECRET_FILE must name a file that can be read: ${file('missing')} failed (ENOENT)`
  ])
  t.same(problemsOf({ ...database, JWT_SECRET_FILE: file('empty') }), [
    `JWT_SECRET_FILE must name a file that is not empty, but ${file('empty')} is`
  ])
  t.same(problemsOf({ JWT_SECRET: 'x'.repeat(32), JWT_SECRET_FILE: file('secret') }), [
    'JWT_SECRET_FILE must not be set together with JWT_SECRET'
  ])
  const [problem = ''] = problemsOf({ DATABASE_URL_FILE: file('url'), JWT_SECRET: 'x'.repeat(32) })
  t.match(problem, /^DATABASE_URL must be a postgresql:\/\/ address/)
  t.notMatch(problem, 'hunter2')
})

t.test('mail needs a sender and the public address, and confirmed addresses need mail', async (t) => {
  const mail = {
    SMTP_URL: 'smtp://user:p%40ss@mail.example.com:2525',
    MAIL_FROM: 'Landfall <noreply@example.com>'
  }
  const missing = (env: Record<string, string>) => problemsOf(env).map((line) => line.split(' ', 1)[0])
  const BASE_URL = 'https://example.com'
  t.same(missing({ ...mail, BASE_URL }), [])
  t.same(missing({ ...mail, BASE_URL, MAIL_FROM: 'noreply@example.com' }), [])
  t.same(missing({ SMTP_URL: mail.SMTP_URL }), ['MAIL_FROM', 'BASE_URL'])
  t.same(missing(mail), ['BASE_URL'])
  t.same(missing({ MAIL_FROM: mail.MAIL_FROM }), [], 'a sender alone does no harm')
  t.same(missing({ REQUIRE_CONFIRMED_EMAIL: 'true' }), ['SMTP_URL'])
  t.same(missing({ ...mail, BASE_URL, REQUIRE_CONFIRMED_EMAIL: 'true' }), [])
})

t.test('each kind of CDN needs its settings', async (t) => {
  const token = { CDN_PURGE_TOKEN: 'token' }
  const url = { CDN_PURGE_URL: 'http://a:1, http://b:2' }
  for (const CDN_PURGE of ['cloudflare', 'fastly']) {
    t.same(problemsOf({ CDN_PURGE }), [
      'CDN_PURGE_TARGET must be set when CDN_PURGE is cloudflare or fastly: the id of the zone or service',
      `CDN_PURGE_TOKEN must be set when CDN_PURGE is ${CDN_PURGE}`
    ])
    const valid = { CDN_PURGE, ...token, CDN_PURGE_TARGET: 'zone' }
    t.same(problemsOf(valid), [])
    t.same(problemsOf({ ...valid, ...url }), [
      'CDN_PURGE_URL must be a single address when CDN_PURGE is cloudflare or fastly'
    ])
  }
  t.same(problemsOf({ CDN_PURGE: 'varnish' }), ['CDN_PURGE_URL must be set when CDN_PURGE is varnish'])
  t.match(loadConfig({ CDN_PURGE: 'varnish', ...url }), { CDN_PURGE_URL: ['http://a:1', 'http://b:2'] })
  t.same(problemsOf({ CDN_PURGE: 'http', ...url }), ['CDN_PURGE_TOKEN must be set when CDN_PURGE is http'])
  t.same(problemsOf({ CDN_PURGE: 'http', ...url, ...token }), [])
})

t.test('several workers need PostgreSQL and Redis, and WEB_CONCURRENCY=0 means one per core', async (t) => {
  const database = { DATABASE_URL: 'postgresql://x/y', JWT_SECRET: 'x'.repeat(32) }
  const redis = { REDIS_URL: 'redis://x' }
  t.equal(loadConfig({ WEB_CONCURRENCY: '1' }).WEB_CONCURRENCY, 1)
  t.equal(loadConfig({ ...database, ...redis, WEB_CONCURRENCY: '3' }).WEB_CONCURRENCY, 3)
  t.equal(loadConfig({ ...database, ...redis, WEB_CONCURRENCY: '0' }).WEB_CONCURRENCY, availableParallelism())
  t.match(problemsOf({ WEB_CONCURRENCY: '3' }), [
    /^WEB_CONCURRENCY must be 1 without DATABASE_URL and REDIS_URL, .* 3 workers .*: set both/
  ])
  t.match(problemsOf({ ...database, WEB_CONCURRENCY: '3' }), [
    /^WEB_CONCURRENCY must be 1 without REDIS_URL, .*: set it/
  ])
  t.match(problemsOf({ ...redis, WEB_CONCURRENCY: '3' }), [
    /^WEB_CONCURRENCY must be 1 without DATABASE_URL, .*: set it/
  ])
})

t.test('lists and addresses are normalized', async (t) => {
  const config = loadConfig({
    ALLOWED_HOSTS: 'WWW.Example.com, *.b\u00fccher.example ,10.0.0.0/8,::1',
    BASE_URL: 'https://example.com/base/',
    ALLOWED_UPLOAD_TYPES: 'Image/*, application/pdf',
    IMAGE_WIDTHS: '800, 400',
    CORS_ORIGINS: 'https://a.example,http://localhost:5173'
  })
  t.same(config.ALLOWED_HOSTS, {
    names: ['www.example.com'],
    suffixes: ['.xn--bcher-kva.example'],
    networks: ['10.0.0.0/8', '::1']
  })
  t.equal(config.BASE_URL, 'https://example.com/base')
  t.same(config.ALLOWED_UPLOAD_TYPES, ['image/*', 'application/pdf'])
  t.same(config.IMAGE_WIDTHS, [800, 400])
  t.same(loadConfig({ IMAGE_WIDTHS: '' }).IMAGE_WIDTHS, [], 'an empty list is a value')
  t.same(
    loadConfig({ OTEL_EXPORTER_OTLP_HEADERS: 'x-key = open%20sesame,other=a=b' }).OTEL_EXPORTER_OTLP_HEADERS,
    { 'x-key': 'open sesame', other: 'a=b' }
  )
})

t.test('public URLs are converted to ASCII and lose their trailing slashes', async (t) => {
  for (
    const [given, kept] of [
      ['https://例え.jp', 'https://xn--r8jz45g.jp'],
      ['https://Example.com/', 'https://example.com'],
      ['https://example.com:443/Säle//', 'https://example.com/S%C3%A4le'],
      ['http://[::1]:3000', 'http://[::1]:3000']
    ] as const
  ) {
    t.match(loadConfig({ BASE_URL: given, UPLOADS_PUBLIC_URL: given }), {
      BASE_URL: kept,
      UPLOADS_PUBLIC_URL: kept
    })
  }
})

t.test('URLs in responses begin with BASE_URL in ASCII, including its path', async (t) => {
  const app = await buildTestApp(t, { BASE_URL: 'https://例え.jp/Säle/' })
  const owner = await signUp(app)
  const base = 'https://xn--r8jz45g.jp/S%C3%A4le'
  for (let n = 0; n < 2; n++) {
    await createPage(app, owner)
    t.ok((await upload(app, owner, PNG)).json().url.startsWith(`${base}/uploads/`))
  }
  for (const list of ['/manage/landing_pages', '/assets']) {
    const { headers, statusCode } = await app.inject({ url: `${list}?limit=1`, headers: owner.headers })
    t.equal(statusCode, 200)
    t.ok(String(headers.link).startsWith(`<${new URL(base).pathname}${list}?`), String(headers.link))
  }
})

t.test('JWT_SECRET and SECRETS_KEY must have at least 32 bytes', async (t) => {
  for (const name of ['JWT_SECRET', 'JWT_SECRET_PREVIOUS', 'SECRETS_KEY'] as const) {
    for (const secret of ['x'.repeat(31), `${'\u00e9'.repeat(15)}x`]) {
      t.same(problemsOf({ [name]: secret }), [`${name} must be at least 32 bytes long`])
    }
    for (const secret of ['x'.repeat(32), '\u00e9'.repeat(16)]) {
      t.equal(loadConfig({ [name]: secret })[name], secret)
    }
  }
})

t.test('.env.example lists every setting and its default', async (t) => {
  const listed = [...readFileSync('.env.example', 'utf8').matchAll(/^#? ?([A-Z\d_]+)=(.*)$/gm)].map((
    [, name = '', value = '']
  ) => [name, value] as const)
  t.same(listed.map(([name]) => name).sort(), Object.keys(loadConfig({})).sort())
  const defaults = loadConfig({})
  t.same(
    loadConfig(Object
      .fromEntries(listed.filter(([name]) => defaults[name as keyof typeof defaults] !== undefined))),
    defaults
  )
})
