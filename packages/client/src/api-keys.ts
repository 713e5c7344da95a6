import type { components } from './api.ts'
import { iterate, toTimeText, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

/** An API key without the key itself, which the service doesn't know. */
export type ApiKey = components['schemas']['ApiKey']
/** A new API key. Its `key` is shown only this once. */
export type NewApiKey = components['schemas']['NewApiKey']

export type Scope = ApiKey['scopes'][number]

export interface ApiKeyFields {
  /** Names the key in the list of keys, and as the author of versions. */
  readonly name: string
  /** What the key gives access to, such as `pages:read`. At least one. */
  readonly scopes: readonly Scope[]
  /** When the key expires. Default: never. */
  readonly expires_at?: Date | string | null | undefined
  /** The password of the account. */
  readonly current_password: string
}

/** The API keys of the account. A key can't be used to manage keys. */
export interface ApiKeys {
  create(fields: ApiKeyFields, options?: CallOptions): Promise<NewApiKey>
  get(id: string, options?: CallOptions): Promise<ApiKey>
  /** Iterates over all keys, newest first. */
  list(options?: ListOptions): AsyncGenerator<ApiKey, void, undefined>
  /** Returns one part of the list. */
  listPage(options?: ListOptions): Promise<List<ApiKey>>
  /** The key is refused from then on. */
  delete(id: string, options?: CallOptions): Promise<void>
}

export function createApiKeys (api: Api): ApiKeys {
  const listPage = async ({ signal, ...query }: ListOptions = {}) =>
    await unwrapList(api.GET('/api_keys', { params: { query }, signal }))
  return {
    async create ({ scopes, expires_at: expiry, ...fields }, { signal } = {}) {
      const body = { ...fields, scopes: [...scopes], expires_at: toTimeText(expiry ?? undefined) }
      return (await unwrap(api.POST('/api_keys', { body, signal }))).data
    },
    async get (id, { signal } = {}) {
      return (await unwrap(api.GET('/api_keys/{id}', { params: { path: { id } }, signal }))).data
    },
    list: (options = {}) => iterate(listPage, options),
    listPage,
    async delete (id, { signal } = {}) {
      await unwrapDeletion(api.DELETE('/api_keys/{id}', { params: { path: { id } }, signal }))
    }
  }
}
