import { createError } from './errors.ts'
import { unwrap, type Api, type CallOptions } from './responses.ts'

/** Confirmations of the e-mail address, if the service sends mail. */
export interface EmailConfirmations {
  /** Asks for another mail with a link that confirms the address. Sign-up sends the first one. */
  requestEmailConfirmation(options?: CallOptions): Promise<void>
  /**
   * Confirms the address with the token of a link. Ends all sessions of the account but the one of this
   * client, and deletes its API keys and preview links. Needs no sign-in.
   */
  confirmEmail(token: string, options?: CallOptions): Promise<void>
}

/** @param anonymousApi a client that sends no access token */
export function createEmailConfirmations (api: Api, anonymousApi: Api): EmailConfirmations {
  return {
    async requestEmailConfirmation ({ signal } = {}) {
      await unwrap(api.POST('/auth/email_confirmations', { signal }))
    },
    async confirmEmail (token, { signal } = {}) {
      const call = { body: { token }, signal }
      const { error, response } = await api.PUT('/auth/email_confirmations', call)
      if (response.ok) return
      // The session is over. The link is valid without one.
      if (response.status === 401) await unwrap(anonymousApi.PUT('/auth/email_confirmations', call))
      else throw createError(response, error)
    }
  }
}
