import type { components } from './api.ts'
import { createAccount, withConfirmation, type Account } from './account.ts'
import { unwrap, type Api, type CallOptions } from './responses.ts'
import { abortable } from './retry.ts'
import { CookieSession, type CookieSessionOptions } from './cookie-session.ts'
import { isUnauthorized } from './errors.ts'
import type { ClientSession } from './session.ts'
import type { TokenPair } from './tokens.ts'

export type User = components['schemas']['User']

export interface Credentials {
  readonly email: string
  readonly password: string
}

export interface SignUpFields extends Credentials {
  /** The password, typed a second time. Defaults to `password`. */
  readonly password_confirmation?: string | undefined
}

/** The account. Sign-up and sign-in store the tokens that all other calls use. */
export interface Auth extends Account {
  signUp(fields: SignUpFields, options?: CallOptions): Promise<User>
  signIn(credentials: Credentials, options?: CallOptions): Promise<User>
  /** Returns the user of this session. */
  me(options?: CallOptions): Promise<User>
  /**
   * Returns the user of the session that the cookie or the storage has kept; undefined when there is none, or
   * it is over. With `cookieSession`, call it first, to get an access token.
   */
  resume(options?: CallOptions): Promise<User | undefined>
  /**
   * Revokes the session and deletes its tokens. Rejects and keeps the tokens when the service can't be
   * reached or doesn't answer within 30 seconds.
   */
  signOut(options?: CallOptions): Promise<void>
  /** Deletes the account with everything that belongs to it, and then the tokens. It can't be undone. */
  deleteAccount(password: string, options?: CallOptions): Promise<void>
}

/** Other calls and tabs wait for these requests. It is long, because an aborted refresh can lose tokens. */
const SESSION_TIMEOUT_MS = 30_000

/** @param anonymousApi a client that sends no access token */
export const createRefresh = (anonymousApi: Api) => async (refreshToken: string): Promise<TokenPair> =>
  (await unwrap(anonymousApi.POST('/auth/refresh', {
    body: { refresh_token: refreshToken },
    signal: AbortSignal.timeout(SESSION_TIMEOUT_MS)
  }))).data

/** @param anonymousApi a client that sends no access token */
export const createOpen = (anonymousApi: Api): CookieSessionOptions['open'] => async (refreshToken) => {
  const { data, response } = await unwrap(anonymousApi.POST('/auth/browser_session', {
    body: refreshToken === undefined ? {} : { refresh_token: refreshToken },
    keepalive: true, // the browser gets the next cookie, also when the page is left meanwhile
    signal: AbortSignal.timeout(SESSION_TIMEOUT_MS)
  }))
  return response.status === 204 ? undefined : data
}

/** @param anonymousApi a client that sends no access token */
export function createAuth (api: Api, anonymousApi: Api, session: ClientSession): Auth {
  const start = async (result: Promise<{ data: TokenPair & { user: User } }>): Promise<User> => {
    const { data: { user, ...tokens } } = await result
    await session.start(tokens)
    return user
  }
  const me = async (signal?: AbortSignal): Promise<User> =>
    (await unwrap(api.GET('/auth/me', { signal }))).data.user
  const revoke = async (tokens?: TokenPair, callSignal?: AbortSignal): Promise<void> => {
    const timeout = AbortSignal.timeout(SESSION_TIMEOUT_MS)
    const signal = callSignal === undefined ? timeout : AbortSignal.any([callSignal, timeout])
    const result = tokens === undefined ? anonymousApi.DELETE('/auth/browser_session', { signal })
      : anonymousApi.DELETE('/auth/sign_out', {
        body: { refresh_token: tokens.refresh_token },
        headers: { authorization: `Bearer ${tokens.access_token}` },
        signal
      })
    // Node 20 may garbage-collect a timeout that only AbortSignal.any() listens to, so listen to it here too.
    await abortable<unknown>(unwrap<unknown>(result), timeout)
  }
  return {
    async signUp (fields, { signal } = {}) {
      const body = { user: withConfirmation(fields) }
      return await start(unwrap(anonymousApi.POST('/auth/sign_up', { body, signal })))
    },
    async signIn (credentials, { signal } = {}) {
      return await start(unwrap(anonymousApi.POST('/auth/sign_in', { body: { user: credentials }, signal })))
    },
    async me ({ signal } = {}) {
      return await me(signal)
    },
    async resume ({ signal } = {}) {
      if (session instanceof CookieSession) return await abortable(session.resume(), signal)
      return await me(signal).catch((error: unknown) => {
        if (isUnauthorized(error)) return undefined
        throw error
      })
    },
    async signOut ({ signal } = {}) {
      await abortable(session.end(async (tokens) => await revoke(tokens, signal)), signal)
    },
    async deleteAccount (password, { signal } = {}) {
      await unwrap(api.DELETE('/auth/me', { body: { password }, signal }))
      await session.end(async () => {}) // the service has revoked the tokens
    },
    ...createAccount(api, anonymousApi)
  }
}
