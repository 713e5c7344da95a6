import { createCheckedToken, isCheckedToken } from '../../../infra/system/identifiers.ts'

/** What an API key may give access to. */
export type Resource = 'pages' | 'assets'

/** The scopes of API keys. */
export const SCOPES = ['pages:read', 'drafts:write', 'pages:write', 'assets:read', 'assets:write'] as const
export type Scope = typeof SCOPES[number]

/** Whether a key with some scopes may do what needs a scope. Who may write pages may also write drafts. */
export const hasScope = (scopes: readonly string[], needed: Scope): boolean =>
  scopes.includes(needed) || (needed === 'drafts:write' && scopes.includes('pages:write'))

const PREFIX = 'lf_'

export const createApiKey = (): string => createCheckedToken(PREFIX)

/** Whether a bearer token is meant to be an API key. Access tokens begin with `ey`. */
export const looksLikeApiKey = (token: string): boolean => token.startsWith(PREFIX)

/** Whether a text has the form of an API key, and the right checksum. */
export const isApiKey = (text: string): boolean => isCheckedToken(PREFIX, text)
