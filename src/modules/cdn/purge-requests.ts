import { lookup } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import type { Config } from '../../config.ts'
import { cacheTag } from '../../http/common-headers.ts'
import { failure, sendRequest, type Outcome, type OutgoingRequest } from '../../http/send-request.ts'
import type { Purge } from './purge-repository.ts'

// The requests that purge each kind of cache.

/** What a purge may need of the settings. */
export interface PurgeSettings
  extends Pick<Config, 'CDN_PURGE_URL' | 'CDN_PURGE_TOKEN' | 'CDN_PURGE_TARGET' | 'UPLOADS_PUBLIC_URL'>
{
  readonly CDN_PURGE: NonNullable<Config['CDN_PURGE']>
}

interface Kind {
  /** The most tags in a request. */
  readonly batch: number
  /** The address of the API. */
  readonly api?: string
  /** The path of the request below the address. */
  readonly path?: (target: string) => string
  readonly request: (
    tags: readonly string[],
    token: string,
    urls: () => string[]
  ) => Pick<OutgoingRequest, 'method' | 'headers' | 'body'>
}

const JSON_TYPE = { 'content-type': 'application/json' }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const KINDS: Readonly<Record<PurgeSettings['CDN_PURGE'], Kind>> = {
  cloudflare: {
    batch: 100,
    api: 'https://api.cloudflare.com',
    path: (target) => `/client/v4/zones/${target}/purge_cache`,
    request: (tags, token) => ({
      method: 'POST',
      headers: { ...JSON_TYPE, ...bearer(token) },
      body: JSON.stringify({ tags })
    })
  },
  fastly: {
    batch: 256,
    api: 'https://api.fastly.com',
    path: (target) => `/service/${target}/purge`,
    request: (tags, token) => ({
      method: 'POST',
      headers: { accept: 'application/json', 'fastly-key': token, 'surrogate-key': tags.join(' ') }
    })
  },
  varnish: {
    batch: 100,
    request: (tags) => ({ method: 'PURGE', headers: { 'xkey-purge': tags.join(' ') } })
  },
  http: {
    batch: 100,
    request: (tags, token, urls) => ({
      method: 'POST',
      headers: { ...JSON_TYPE, ...bearer(token) },
      body: JSON.stringify({ tags, urls: urls() })
    })
  }
}

/** The most purges in a request. */
export const batchSize = ({ CDN_PURGE }: PurgeSettings): number => KINDS[CDN_PURGE].batch

/**
 * Purges the cache in front of the service: every instance of Varnish, or its API. Never rejects.
 *
 * @param baseUrl the public address of the service, without a slash at the end
 * @returns the first failure, or a success of all
 */
export async function purgeCache (
  settings: PurgeSettings,
  baseUrl: string,
  purges: readonly Purge[],
  signal: AbortSignal
): Promise<Outcome> {
  const { CDN_PURGE, CDN_PURGE_URL, CDN_PURGE_TOKEN = '', CDN_PURGE_TARGET = '' } = settings
  const { api = '', path, request } = KINDS[CDN_PURGE]
  const tags = [...new Set(purges.map(({ name }) => cacheTag(name)))]
  const parts = request(
    tags,
    CDN_PURGE_TOKEN,
    () => purges.flatMap((purge) => urlsOf(purge, settings, baseUrl))
  )
  const outcomes = (await Promise.all((CDN_PURGE_URL.length > 0 ? CDN_PURGE_URL : [api]).map(async (base) => {
    const url = new URL(path === undefined ? base : base.replace(/\/$/, '') + path(CDN_PURGE_TARGET))
    if (CDN_PURGE !== 'varnish') return [await sendRequest(url, { ...parts, signal })]
    return await sendToAll(url, { ...parts, signal })
  }))).flat()
  return outcomes.find(({ error }) => error !== null) ?? outcomes[0] as Outcome
}

/** Sends a request to every address of a host. */
async function sendToAll (url: URL, request: OutgoingRequest): Promise<Outcome[]> {
  try {
    const addresses = await lookup(url.hostname.replace(/^\[|\]$/g, ''), { all: true })
    return await Promise.all(addresses.map(async ({ address, family }) => {
      const only: LookupFunction = (_host, { all }, callback) =>
        all === true ? callback(null, [{ address, family }]) : callback(null, address, family)
      return await sendRequest(url, { ...request, lookup: only })
    }))
  } catch (error) {
    return [failure(error as NodeJS.ErrnoException)]
  }
}

/** The URLs of a page or file. One that ends with a slash stands for all below it. */
function urlsOf ({ name, type }: Purge, { UPLOADS_PUBLIC_URL }: PurgeSettings, baseUrl: string): string[] {
  if (type === 'file') {
    const folders = new Set([`${baseUrl}/uploads`, UPLOADS_PUBLIC_URL ?? `${baseUrl}/uploads`])
    return [...folders].map((folder) => `${folder}/${name}`)
  }
  return [type === 'variants' ? `${baseUrl}/uploads/${name}/` : `${baseUrl}/landing_pages/${name}`]
}
