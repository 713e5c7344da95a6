import type { components } from './api.ts'
import { unwrap, type Api, type CallOptions } from './answers.ts'
import { abortable } from './retry.ts'
import type { Session } from './session.ts'
import type { TokenPair } from './tokens.ts'

export type User = components['schemas']['User']

export interface Credentials {
  readonly email: string
  readonly password: string
}

export interface SignUpFields extends Credentials {
  /** As typed a second time; the password itself where nobody types. */
  readonly password_confirmation?: string | undefined
}

/** The account. Sign-up and sign-in keep the tokens, and every other call uses them. */
export interface Auth {
  signUp (fields: SignUpFields, options?: CallOptions): Promise<User>
  signIn (credentials: Credentials, options?: CallOptions): Promise<User>
  /** Whose session this is. */
  me (options?: CallOptions): Promise<User>
  /**
   * Revokes the session and forgets its tokens. When the service can't be reached, or hasn't answered within half a
   * minute, it rejects, and the tokens are kept.
   */
  signOut (options?: CallOptions): Promise<void>
}

/**
 * Of the requests for which the other calls, and other tabs, wait. A refresh whose answer gets lost may have spent the
 * token all the same, so it is given time; and nobody waits for ever.
 */
const SESSION_TIMEOUT_MS = 30_000

/** @param bare a client that sends no token of its own */
export const refreshWith = (bare: Api) => async (refreshToken: string): Promise<TokenPair> =>
  (await unwrap(bare.POST('/auth/refresh', { body: { refresh_token: refreshToken }, signal: AbortSignal.timeout(SESSION_TIMEOUT_MS) }))).data

export function authOf (api: Api, bare: Api, session: Session): Auth {
  const start = async (answer: Promise<{ data: TokenPair & { user: User } }>): Promise<User> => {
    const { data: { user, ...tokens } } = await answer
    await session.start(tokens)
    return user
  }
  return {
    async signUp (fields, { signal } = {}) {
      const user = { ...fields, password_confirmation: fields.password_confirmation ?? fields.password }
      return await start(unwrap(bare.POST('/auth/sign_up', { body: { user }, signal })))
    },
    async signIn (credentials, { signal } = {}) {
      return await start(unwrap(bare.POST('/auth/sign_in', { body: { user: credentials }, signal })))
    },
    async me ({ signal } = {}) {
      return (await unwrap(api.GET('/auth/me', { signal }))).data.user
    },
    async signOut ({ signal } = {}) {
      await abortable(session.end(async ({ access_token: bearer, refresh_token: refreshToken }) => {
        const timeout = AbortSignal.timeout(SESSION_TIMEOUT_MS)
        const answer = bare.DELETE('/auth/sign_out', {
          body: { refresh_token: refreshToken },
          headers: { authorization: `Bearer ${bearer}` },
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout])
        })
        // In Node 20 a timeout that only AbortSignal.any() listens to can be collected as garbage, and never comes.
        await abortable(unwrap(answer), timeout)
      }), signal)
    }
  }
}
