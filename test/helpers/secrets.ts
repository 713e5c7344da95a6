import { PASSWORD } from './app.ts'

// Finds secrets in the output of the service.

/** Settings that are secrets, and settings that contain a password. */
const SECRET_SETTINGS = ['JWT_SECRET', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']
const ADDRESSES = ['DATABASE_URL', 'REDIS_URL', 'SMTP_URL']

/** Patterns of secrets. */
const SHAPES: readonly (readonly [what: string, shape: RegExp])[] = [
  ['a JWT', /eyJ[\w-]{5,}\.[\w-]*/],
  ['a bearer token', /bearer +[\w~+/.-]{8,}/i],
  ['an API key', /lf_[0-9A-Za-z]{46}/],
  ['a hash of a password', /\$(?:argon2|2[aby]\$|scrypt)/],
  ['an address with a password', /\w:\/\/[^\s/"':@]*:[^\s/"'@]+@/],
  ['a private key', /-----BEGIN [A-Z ]*PRIVATE KEY/]
]

/**
 * Searches the output of a service for secrets.
 *
 * @param env the settings of the service; their secrets are searched for, too
 * @param others more secret texts, by description
 * @returns descriptions of the secrets that were found
 */
export function secretsIn (
  printed: string,
  env: Readonly<Record<string, string>> = {},
  others: Readonly<Record<string, string>> = {}
): string[] {
  const texts = new Map<string, string>([['the password of the tests', PASSWORD], ...Object.entries(others)])
  for (const name of SECRET_SETTINGS) if (env[name] !== undefined) texts.set(name, env[name])
  for (const name of ADDRESSES) {
    // Not URL, which refuses the address of a Redis Cluster.
    const [, password = ''] = /^\w+:\/\/[^:/?#]*:([^/?#]*)@/.exec(env[name] ?? '') ?? []
    if (password !== '') texts.set(`the password of ${name}`, decodeURIComponent(password))
  }
  return [
    ...[...texts].filter(([, text]) => printed.includes(text)).map(([what]) => what),
    ...SHAPES.filter(([, shape]) => shape.test(printed)).map(([what]) => what)
  ]
}
