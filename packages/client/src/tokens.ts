import { createNoSessionError } from './errors.ts'

/** The tokens that sign-up, sign-in and refresh return. A refresh token can be used once. */
export interface TokenPair {
  readonly access_token: string
  readonly refresh_token: string
}

/** Stores the tokens of a client. The client loads them before each request, so tabs can share a session. */
export interface TokenStorage {
  load(): TokenPair | undefined | Promise<TokenPair | undefined>
  save(tokens: TokenPair): void | Promise<void>
  clear(): void | Promise<void>
}

/** Keeps tokens in memory. This is the default. */
export function memoryTokens (tokens?: TokenPair): TokenStorage {
  let kept = tokens
  return {
    load: () => kept,
    save (pair) {
      kept = pair
    },
    clear () {
      kept = undefined
    }
  }
}

const refuse = async (): Promise<never> => {
  throw createNoSessionError()
}

/** For a client with an API key, which has no session. */
export const noTokens: TokenStorage = { load: refuse, save: refuse, clear: refuse }

/** The methods of the browser's `Storage` that the client uses. */
export interface WebStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/**
 * Keeps tokens in `localStorage` (all tabs, until sign-out) or `sessionStorage` (one tab). Every script of
 * the page's origin can read them.
 */
export function webStorageTokens (storage: WebStorage, key = 'landfall.tokens'): TokenStorage {
  return {
    load () {
      try {
        const { access_token: access, refresh_token: refresh } = JSON
          .parse(storage.getItem(key) ?? '') as Record<string, unknown>
        return typeof access === 'string' && typeof refresh === 'string'
          ? { access_token: access, refresh_token: refresh } : undefined
      } catch {
        return undefined // there is no entry, or another program wrote it
      }
    },
    save (tokens) {
      storage.setItem(key, JSON.stringify(tokens))
    },
    clear () {
      storage.removeItem(key)
    }
  }
}
