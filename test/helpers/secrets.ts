import { PASSWORD } from './app.ts'

// What no line of the service may hold, whatever happens to it.

/** Settings that are secret as a whole, and those that have a password in them. */
const SECRET_SETTINGS = ['JWT_SECRET', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']
const ADDRESSES = ['DATABASE_URL', 'REDIS_URL']

/** What is known to be secret by its shape. */
const SHAPES: readonly (readonly [what: string, shape: RegExp])[] = [
  ['a JWT', /eyJ[\w-]{5,}\.[\w-]*/],
  ['a bearer token', /bearer +[\w~+/.-]{8,}/i],
  ['a hash of a password', /\$(?:argon2|2[aby]\$|scrypt)/],
  ['an address with a password', /\w:\/\/[^\s/"':@]*:[^\s/"'@]+@/],
  ['a private key', /-----BEGIN [A-Z ]*PRIVATE KEY/]
]

/**
 * Looks for secrets in what a service has printed.
 *
 * @param env its settings, of which the secret ones are looked for, too
 * @param others more texts that must not be in it, by what they are
 * @returns what was found, without the secret itself
 */
export function secretsIn (printed: string, env: Readonly<Record<string, string>> = {}, others: Readonly<Record<string, string>> = {}): string[] {
  const texts = new Map<string, string>([['the password of the tests', PASSWORD], ...Object.entries(others)])
  for (const name of SECRET_SETTINGS) if (env[name] !== undefined) texts.set(name, env[name])
  for (const name of ADDRESSES) {
    const password = URL.canParse(env[name] ?? '') ? new URL(env[name] as string).password : ''
    if (password !== '') texts.set(`the password of ${name}`, decodeURIComponent(password))
  }
  return [
    ...[...texts].filter(([, text]) => printed.includes(text)).map(([what]) => what),
    ...SHAPES.filter(([, shape]) => shape.test(printed)).map(([what]) => what)
  ]
}
