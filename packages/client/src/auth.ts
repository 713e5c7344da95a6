import type { components } from './api.ts'
import { unwrap, type Api, type CallOptions } from './responses.ts'
import { abortable } from './retry.ts'
import type { Session } from './session.ts'
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
export interface Auth {
  signUp(fields: SignUpFields, options?: CallOptions): Promise<User>
  signIn(credentials: Credentials, options?: CallOptions): Promise<User>
  /** Returns the user of this session. */
  me(options?: CallOptions): Promise<User>
  /**
   * Revokes the session and deletes its tokens. Rejects and keeps the tokens when the service can't be
   * reached or doesn't answer within 30 seconds.
   */
  signOut(options?: CallOptions): Promise<void>
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
export function createAuth (api: Api, anonymousApi: Api, session: Session): Auth {
  const start = async (result: Promise<{ data: TokenPair & { user: User } }>): Promise<User> => {
    const { data: { user, ...tokens } } = await result
    await session.start(tokens)
    return user
  }
  const revoke = async (tokens: TokenPair, signal?: AbortSignal): Promise<void> => {
    const timeout = AbortSignal.timeout(SESSION_TIMEOUT_MS)
    const result = anonymousApi.DELETE('/auth/sign_out', {
      body: { refresh_token: tokens.refresh_token },
      headers: { authorization: `Bearer ${tokens.access_token}` },
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout])
    })
    // Node 20 may garbage-collect a timeout that only AbortSignal.any() listens to, so listen to it here too.
    await abortable(unwrap(result), timeout)
  }
  return {
    async signUp (fields, { signal } = {}) {
      const user = { ...fields, password_confirmation: fields.password_confirmation ?? fields.password }
      return await start(unwrap(anonymousApi.POST('/auth/sign_up', { body: { user }, signal })))
    },
    async signIn (credentials, { signal } = {}) {
      return await start(unwrap(anonymousApi.POST('/auth/sign_in', { body: { user: credentials }, signal })))
    },
    async me ({ signal } = {}) {
      return (await unwrap(api.GET('/auth/me', { signal }))).data.user
    },
    async signOut ({ signal } = {}) {
      await abortable(session.end(async (tokens) => await revoke(tokens, signal)), signal)
    }
  }
}
