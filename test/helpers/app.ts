import type { FastifyBaseLogger, FastifyInstance, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import './conformance.js'
import { createMigratedDatabase } from './servers.ts'
import { startService, temporaryFolder, type Service } from './service.ts'

// Runs the service on a database of its own, mostly inside the test's process.

export const JWT_SECRET = 'a secret of the tests, 32 bytes and more'

/** A busy machine must cause no 503: neither by a late event loop nor by a late PostgreSQL. */
const COMMON = { LOG_LEVEL: 'silent', MAX_EVENT_LOOP_DELAY_MS: '0', DATABASE_TIMEOUT_MS: '60000' }

/**
 * Returns settings with a new database and a new uploads folder. Replicas are apps with the same settings.
 */
export async function testSettings (t: Test): Promise<Record<string, string>> {
  return {
    DATABASE_URL: await createMigratedDatabase(t),
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    BASE_URL: 'http://landfall.test',
    ...COMMON
  }
}

/** Starts the built service as a process, on a database of its own. */
export async function startServiceOnPostgres (t: Test, env: Record<string, string> = {}): Promise<Service> {
  const { BASE_URL: _baseUrl, ...settings } = await testSettings(t)
  return await startService(t, { ...settings, ...env })
}

/**
 * Builds the service on a real PostgreSQL without listening; the end of the test closes it.
 *
 * @param settings by environment variable; without DATABASE_URL, it has a database of its own
 */
export async function buildTestApp (
  t: Test,
  settings: Record<string, string | undefined> = {},
  logger?: FastifyBaseLogger
): Promise<FastifyInstance> {
  // Most system tests don't need the service itself, which takes long to load.
  const [{ buildApp }, { loadConfig }] = await Promise.all([
    import('../../src/app.ts'),
    import('../../src/config.ts')
  ])
  const base = settings.DATABASE_URL === undefined ? await testSettings(t)
    : { JWT_SECRET, BASE_URL: 'http://landfall.test', ...COMMON }
  const app = await buildApp(loadConfig({ ...base, ...settings }), logger)
  t.teardown(async () => await app.close())
  return app
}

/** Makes an app listen on a free port of the loopback address; returns its URL. */
export async function listen (app: FastifyInstance): Promise<string> {
  return await app.listen({ host: '127.0.0.1', port: 0 })
}

export interface Account {
  readonly user: { readonly id: number, readonly email: string, readonly email_confirmed_at: string | null }
  readonly access_token: string
  readonly refresh_token: string
  /** The Authorization header, for inject and fetch. */
  readonly headers: { readonly authorization: string }
}

export const PASSWORD = 'correct horse battery'
let accounts = 0

/** Creates an account with a new e-mail address. */
export async function signUp (
  app: FastifyInstance,
  email = `owner-${process.pid}-${++accounts}@example.com`
): Promise<Account> {
  const user = { email, password: PASSWORD, password_confirmation: PASSWORD }
  const response = await sendAs(app, NOBODY, 'POST', '/auth/sign_up', { user })
  if (response.statusCode !== 201) throw new Error(`sign-up failed: ${response.statusCode} ${response.body}`)
  const body = response.json()
  return { ...body, headers: { authorization: `Bearer ${body.access_token}` } }
}

/** Returns the status of a sign-in. */
export async function signInStatus (
  app: FastifyInstance,
  email: string,
  password = PASSWORD
): Promise<number> {
  return (await sendAs(app, NOBODY, 'POST', '/auth/sign_in', { user: { email, password } })).statusCode
}

/** Signs in again, possibly from elsewhere. Returns the account with the tokens of a new session. */
export async function signIn (
  app: FastifyInstance,
  { user }: Pick<Account, 'user'>,
  from: { readonly remoteAddress?: string, readonly headers?: Record<string, string> } = {}
): Promise<Account> {
  const response = await app.inject({
    method: 'POST',
    url: '/auth/sign_in',
    payload: { user: { email: user.email, password: PASSWORD } },
    ...from
  })
  if (response.statusCode !== 200) throw new Error(`sign-in failed: ${response.statusCode} ${response.body}`)
  const body = response.json()
  return { ...body, headers: { authorization: `Bearer ${body.access_token}` } }
}

/** The headers of an account or key, or `NOBODY`. */
interface Sender {
  readonly headers: Readonly<Record<string, string>>
}
export const NOBODY: Sender = { headers: {} }

/** Sends a request. A string is the exact text of a JSON body. */
export async function sendAs (
  app: FastifyInstance,
  { headers }: Sender,
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  payload?: object | string,
  more: Readonly<Record<string, string>> = {}
): Promise<LightMyRequestResponse> {
  const type = typeof payload === 'string' ? { 'content-type': 'application/json' } : {}
  return await app.inject({
    method,
    url,
    headers: { ...headers, ...type, ...more },
    ...payload !== undefined && { payload }
  })
}

/** Returns a function that sends requests as an owner, or as somebody else. */
export const senderFor = (app: FastifyInstance, owner: Sender) =>
async (
  method: Parameters<typeof sendAs>[2],
  url: string,
  payload?: object | string,
  headers: Readonly<Record<string, string>> = {},
  sender: Sender = owner
): Promise<LightMyRequestResponse> => await sendAs(app, sender, method, url, payload, headers)

/** Returns the URL of the next part of a list. */
export const nextOf = ({ headers }: LightMyRequestResponse): string | undefined =>
  /^<(\/[^>]*)>; rel="next"$/.exec(String(headers.link))?.[1]

/** Reads all parts of a list. Returns the ids of each. */
export async function walkList (app: FastifyInstance, sender: Sender, url: string): Promise<string[][]> {
  const parts: string[][] = []
  for (let next: string | undefined = url; next !== undefined;) {
    const response: LightMyRequestResponse = await sendAs(app, sender, 'GET', next)
    if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${response.body}`)
    parts.push(response.json<{ id: string }[]>().map(({ id }) => id))
    next = nextOf(response)
  }
  return parts
}

/** Creates an API key. Returns it with its id and the Authorization header. */
export async function createKey (
  app: FastifyInstance,
  account: Pick<Account, 'headers'>,
  scopes: readonly string[],
  more: { readonly name?: string, readonly expires_at?: string } = {}
) {
  const payload = { name: 'a program', scopes, current_password: PASSWORD, ...more }
  const response = await sendAs(app, account, 'POST', '/api_keys', payload)
  if (response.statusCode !== 201) throw new Error(`create failed: ${response.statusCode} ${response.body}`)
  const { id, key } = response.json<{ id: string, key: string }>()
  return { id, key, headers: { authorization: `Bearer ${key}` } }
}

export interface CreatedPage {
  readonly id: string
  readonly public_id: string
  /** The tag of the document. */
  readonly etag: string
  /** The tag of the record. */
  readonly recordTag: string
}

/** Returns the tag of the document of a record. */
export const documentTag = (recordTag: string): string => recordTag.replace(/\.\d+"$/, '"')

/** Creates a Landing Page whose document is exactly the JSON text `document`. */
export async function createPage (
  app: FastifyInstance,
  account: Pick<Account, 'headers'>,
  document = '{"hello":"world"}'
): Promise<CreatedPage> {
  const response = await sendAs(app, account, 'POST', '/landing_pages', `{"current_data":${document}}`)
  if (response.statusCode !== 201) throw new Error(`create failed: ${response.statusCode} ${response.body}`)
  const { id, public_id: publicId } = response.json()
  const recordTag = String(response.headers.etag)
  return { id, public_id: publicId, etag: documentTag(recordTag), recordTag }
}
