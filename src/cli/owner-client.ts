import { InvalidArgumentError } from 'commander'
import { createLandfallClient, InsufficientScopeError, LandfallError, type LandfallClient, type List,
  type ListOptions } from '#client'
import { NoDraftError } from '../errors.ts'
import { VERSION } from '../infra/system/version.ts'
import { replaceControlCharacters } from './output.ts'

// @landfall/client for the commands of owners. It needs LANDFALL_URL and LANDFALL_KEY, and none of the
// service's settings.

const DEFAULT_URL = 'http://localhost:3000'
const KEY_RULE =
  'LANDFALL_KEY must be an API key (lf_…), or an access token, as a sign-in returns it (for 15 minutes)'
const KEY_PREFIX = 'key:'
const TIMEOUT_MS = 60_000
/** Records in one request of a list. */
const LIST_LIMIT = 100

/** There is no Landfall that answers at LANDFALL_URL. */
export class ServiceAddressError extends Error {}

/**
 * Creates a client for LANDFALL_URL and LANDFALL_KEY. Its calls reject with an Error for the user if there
 * was no response within 60 s, or if the response isn't Landfall's.
 *
 * @throws {InvalidArgumentError} LANDFALL_URL or LANDFALL_KEY can't be used; the message hides both
 */
export function createOwnerClient (): LandfallClient {
  const { LANDFALL_URL: url, LANDFALL_KEY: key = '' } = process.env
  const baseUrl = checkUrl(url || DEFAULT_URL)
  if (!/^[\x21-\x7e]+$/.test(key)) throw new InvalidArgumentError(KEY_RULE) // fetch would print others
  return createLandfallClient({
    baseUrl,
    async fetch (url, init) {
      const headers = new Headers(init.headers)
      headers.set('authorization', `Bearer ${key}`) // also an access token, which the client couldn't renew
      headers.set('accept-encoding', 'identity') // a proxy that compresses may change the ETag
      headers.set('user-agent', `landfall/${VERSION}`)
      const response = await send(baseUrl, url, { ...init, headers })
      const { status } = response
      if (status >= 300 && status < 400) throw createRedirectError(baseUrl, response)
      const isEmpty = status === 204 || (status === 201 && response.body === null)
      if (status < 300 && !isEmpty && !isJson(response)) throw createUnexpectedError(baseUrl)
      return response
    }
  })
}

/** Sends a request and reads the whole response, so that all failures of the network occur here. */
async function send (baseUrl: string, url: string, init: RequestInit): Promise<Response> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const response = await fetch(url, { ...init, redirect: 'manual', signal }) // another host gets no key
    const body = await response.arrayBuffer()
    return new Response(body.byteLength === 0 ? null : body, response)
  } catch (error) {
    const { name, cause } = error as Error & { cause?: NodeJS.ErrnoException }
    const reason = name === 'TimeoutError' ? `no response within ${TIMEOUT_MS / 1000} seconds`
      : cause?.code ?? cause?.message ?? String(error)
    throw new ServiceAddressError(`${baseUrl} can't be reached (${reason}): is LANDFALL_URL right?`)
  }
}

/** Returns the URL without slashes at its end. A user name and a password are refused, as fetch does. */
function checkUrl (given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined
  if (
    url === undefined || !/^https?:\/\//i.test(given) || url.username + url.password !== '' ||
    /[?#]/.test(given)
  ) {
    throw new InvalidArgumentError(`LANDFALL_URL must be an address such as ${DEFAULT_URL}, without a ` +
      'password and a query')
  }
  return url.href.replace(/\/+$/, '')
}

const isJson = ({ headers }: Response): boolean =>
  /^application\/json\b/i.test(headers.get('content-type') ?? '')

const createRedirectError = (baseUrl: string, { headers }: Response): Error =>
  new ServiceAddressError(`${baseUrl} redirects to ` +
    `${replaceControlCharacters(headers.get('location') ?? '')}: set LANDFALL_URL to the address of the ` +
    'service itself')

const createUnexpectedError = (baseUrl: string): Error =>
  new ServiceAddressError(`${baseUrl} does not answer like Landfall: is LANDFALL_URL right?`)

/** Returns the id of a page that is named by it, or by `key:` and its key. */
export async function findPageId ({ landingPages }: LandfallClient, page: string): Promise<string> {
  if (!page.startsWith(KEY_PREFIX)) return page
  return (await landingPages.getByKey(page.slice(KEY_PREFIX.length))).id
}

/** Requests all parts of a list. */
export async function* listParts<Item> (
  listPage: (options: ListOptions) => Promise<List<Item>>
): AsyncGenerator<Item[], void, undefined> {
  let cursor: string | undefined
  do {
    const { items, next } = await listPage({ limit: LIST_LIMIT, cursor })
    if (!Array.isArray(items)) throw createUnexpectedError(process.env.LANDFALL_URL || DEFAULT_URL)
    yield items
    cursor = next
  } while (cursor !== undefined)
}

const ADVICE: Readonly<Record<number, string>> = {
  404: '"pages list" shows the ids and keys of your pages (write key:NAME for a key), "pages history" the ' +
    'versions of one, "pages trash list" the deleted ones',
  412: 'Somebody has changed the page meanwhile, and nothing was written: read it again, and apply your ' +
    'change to that'
}
/** The page is right, so the advice for a 404 would mislead. */
const NO_DRAFT = new NoDraftError().message
const NO_DRAFT_ADVICE = '"pages draft ID FILE" writes one; "-" as the file is standard input'
const REFUSED_KEY_ADVICE = 'Put another key into LANDFALL_KEY; a change of the password deletes all keys'
const SCOPE_ADVICE =
  "The scopes of a key can't be changed: create a key that also has this one, and put it into LANDFALL_KEY"

/** Returns the message of an error. That of the client's has what the user can do. */
export function explain (error: unknown): string {
  if (!(error instanceof LandfallError)) return (error as Error).message
  return [...error.errors.map(replaceControlCharacters), getAdvice(error) ?? []].flat().join('\n')
}

function getAdvice (error: LandfallError): string | undefined {
  if (error instanceof InsufficientScopeError) return SCOPE_ADVICE
  if (error.status === 401) {
    return process.env.LANDFALL_KEY?.startsWith('lf_') === true ? REFUSED_KEY_ADVICE : KEY_RULE
  }
  return error.errors[0] === NO_DRAFT ? NO_DRAFT_ADVICE : ADVICE[error.status]
}
