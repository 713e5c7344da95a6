/** As sign-in and refresh answer. A refresh token works once. */
export interface TokenPair {
  readonly access_token: string
  readonly refresh_token: string
}

/** Where a client keeps its tokens. It asks before each request, so tabs that share a storage share a session. */
export interface TokenStorage {
  load (): TokenPair | undefined | Promise<TokenPair | undefined>
  save (tokens: TokenPair): void | Promise<void>
  clear (): void | Promise<void>
}

/** For as long as the program or the page lives; the default. */
export function memoryTokens (tokens?: TokenPair): TokenStorage {
  let kept = tokens
  return {
    load: () => kept,
    save (pair) { kept = pair },
    clear () { kept = undefined }
  }
}

/** What is used of the browser's `Storage`. */
export interface WebStorage {
  getItem (key: string): string | null
  setItem (key: string, value: string): void
  removeItem (key: string): void
}

/**
 * In `localStorage` (all tabs, until sign-out) or `sessionStorage` (one tab). Every script of the page's origin can read
 * what is there.
 */
export function webStorageTokens (storage: WebStorage, key = 'landfall.tokens'): TokenStorage {
  return {
    load () {
      try {
        const { access_token: access, refresh_token: refresh } = JSON.parse(storage.getItem(key) ?? '') as Record<string, unknown>
        return typeof access === 'string' && typeof refresh === 'string' ? { access_token: access, refresh_token: refresh } : undefined
      } catch {
        return undefined // nothing there, or something else's
      }
    },
    save (tokens) { storage.setItem(key, JSON.stringify(tokens)) },
    clear () { storage.removeItem(key) }
  }
}
