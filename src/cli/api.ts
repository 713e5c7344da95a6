import { InvalidArgumentError } from 'commander'
import { VERSION } from '../infra/system/version.ts'
import { replaceControlCharacters } from './output.ts'

// Calls the HTTP API of a service, which may run elsewhere. It needs LANDFALL_URL and LANDFALL_KEY, and none
// of the service's settings.

/** Help for the commands that call the API. */
export const API_HELP = `
Calls the API of a service, with two variables of the environment:

  LANDFALL_URL  address of the service (http://localhost:3000)
  LANDFALL_KEY  API key of the owner with the scope pages:read, and pages:write to change pages;
                or an access token, as a sign-in returns it, for 15 minutes`

const DEFAULT_URL = 'http://localhost:3000'
const KEY_RULE =
  'LANDFALL_KEY must be an API key (lf_…), or an access token, as a sign-in returns it (for 15 minutes)'
const TIMEOUT_MS = 60_000
/** Records in one request of a list. */
const LIST_LIMIT = 100

export interface ApiRequest {
  readonly query?: Readonly<Record<string, string>>
  /** An entity tag with its quotes, or `*`. */
  readonly ifMatch?: string | undefined
  /** A JSON document. */
  readonly body?: Uint8Array
}

export interface ApiAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
}

/** The service answered with an error. The message is for the user. */
export class ApiError extends Error {
  readonly status: number

  constructor (status: number, message: string) {
    super(message)
    this.status = status
  }
}

export class Api {
  readonly #url: string
  readonly #key: string

  /** @throws {InvalidArgumentError} LANDFALL_URL or LANDFALL_KEY can't be used; the message hides both */
  constructor ({ LANDFALL_URL: url, LANDFALL_KEY: key = '' }: NodeJS.ProcessEnv = process.env) {
    this.#url = checkUrl(url || DEFAULT_URL)
    if (!/^[\x21-\x7e]+$/.test(key)) throw new InvalidArgumentError(KEY_RULE) // fetch would print others
    this.#key = key
  }

  /**
   * Sends a request and reads the answer.
   *
   * @param path without the query
   * @throws {ApiError} the service answered with an error
   * @throws {Error} there was no answer within 60 s, or the answer isn't Landfall's
   */
  async request (
    method: string,
    path: string,
    { query = {}, ifMatch, body }: ApiRequest = {}
  ): Promise<ApiAnswer> {
    const answer = await this.#send(`${this.#url}${path}${formatQuery(query)}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#key}`,
        'accept-encoding': 'identity', // a proxy that compresses may change the ETag
        'user-agent': `landfall/${VERSION}`,
        ...(ifMatch !== undefined && { 'if-match': ifMatch }),
        ...(body !== undefined && { 'content-type': 'application/json' })
      },
      ...(body !== undefined && { body }),
      redirect: 'manual', // another host must not get the key
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    const { status, headers } = answer
    if (status >= 300 && status < 400) throw this.#createRedirectError(headers.get('location') ?? '')
    if (status >= 400) throw createApiError(answer, this.#key)
    if (status !== 204 && !isJson(headers)) throw this.#createStrangeAnswerError()
    return answer
  }

  /** Requests all parts of a list and yields the JSON text of each. */
  async *list (path: string): AsyncGenerator<Buffer, void, undefined> {
    let cursor: string | undefined
    do {
      const query = { limit: String(LIST_LIMIT), ...(cursor !== undefined && { cursor }) }
      const { body, headers } = await this.request('GET', path, { query })
      if (body[0] !== '['.charCodeAt(0)) throw this.#createStrangeAnswerError()
      yield body
      cursor = getNextCursor(headers)
    } while (cursor !== undefined)
  }

  async #send (url: string, init: RequestInit): Promise<ApiAnswer> {
    try {
      const response = await fetch(url, init)
      const { status, headers } = response
      return { status, headers, body: Buffer.from(await response.arrayBuffer()) }
    } catch (error) {
      const { name, cause } = error as Error & { cause?: NodeJS.ErrnoException }
      const reason = name === 'TimeoutError' ? `no answer within ${TIMEOUT_MS / 1000} seconds`
        : cause?.code ?? cause?.message ?? String(error)
      throw new Error(`${this.#url} can't be reached (${reason}): is LANDFALL_URL right?`)
    }
  }

  #createRedirectError (location: string): Error {
    return new Error(`${this.#url} redirects to ${
      replaceControlCharacters(location)
    }: set LANDFALL_URL to the address of the service itself`)
  }

  #createStrangeAnswerError (): Error {
    return new Error(`${this.#url} does not answer like Landfall: is LANDFALL_URL right?`)
  }
}

/** Returns the URL without slashes at its end. A user name and a password are refused, as fetch does. */
function checkUrl (given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (
    url === undefined || !/^https?:\/\//i.test(given) || url.username + url.password !== '' ||
    /[?#]/.test(given)
  ) {
    throw new InvalidArgumentError(`LANDFALL_URL must be an address such as ${DEFAULT_URL}, without a password and a query`)
  }
  return url.href.replace(/\/+$/, '')
}

const formatQuery = (query: Readonly<Record<string, string>>): string =>
  Object.keys(query).length === 0 ? '' : `?${new URLSearchParams(query)}`

const isJson = (headers: Headers): boolean => /^application\/json\b/i.test(headers.get('content-type') ?? '')

/** Returns the cursor of the next part. Ignores the rest of the URL, which could lead to another host. */
function getNextCursor (headers: Headers): string | undefined {
  const link = /<([^>]*)>\s*;\s*rel="?next\b/i.exec(headers.get('link') ?? '')?.[1]
  return link === undefined ? undefined
    : new URL(link, DEFAULT_URL).searchParams.get('cursor') ?? undefined
}

const ADVICE: Readonly<Record<number, string>> = {
  404: '"pages list" shows the ids of your pages, "pages history" the versions of one',
  412:
    'Somebody has changed the page meanwhile, and nothing was written: read it again, and apply your change to that'
}

const REFUSED_KEY_ADVICE = 'Put another key into LANDFALL_KEY; a change of the password deletes all keys'
const SCOPE_ADVICE =
  "The scopes of a key can't be changed: create a key that also has this one, and put it into LANDFALL_KEY"

function getAdvice ({ status, headers }: ApiAnswer, key: string): string | undefined {
  if (status === 401) return key.startsWith('lf_') ? REFUSED_KEY_ADVICE : KEY_RULE
  if (status === 403 && /"insufficient_scope"/.test(headers.get('www-authenticate') ?? '')) {
    return SCOPE_ADVICE
  }
  return ADVICE[status]
}

function createApiError (answer: ApiAnswer, key: string): ApiError {
  const { status, headers, body } = answer
  const sentences = isJson(headers) ? readErrors(body) : []
  if (sentences.length === 0) sentences.push(`The answer was ${status}`) // by a proxy in front of the service
  const advice = getAdvice(answer, key)
  return new ApiError(
    status,
    [...sentences.map(replaceControlCharacters), ...advice === undefined ? [] : [advice]].join('\n')
  )
}

function readErrors (body: Buffer): string[] {
  try {
    const { errors } = JSON.parse(body.toString()) as { errors?: unknown }
    return Array.isArray(errors) ? errors.map(String) : []
  } catch {
    return []
  }
}
