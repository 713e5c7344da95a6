import { unwrap, type Api, type CallOptions } from './responses.ts'

interface NewPassword {
  /** The new password. */
  readonly password: string
  /** The new password, typed a second time. Defaults to `password`. */
  readonly password_confirmation?: string | undefined
}

export interface PasswordChange extends NewPassword {
  readonly current_password: string
}

export interface PasswordReset extends NewPassword {
  /** What follows `#token=` in the link of the mail. */
  readonly token: string
}

/** The password of the account. */
export interface Passwords {
  /** Ends all sessions but that of this client. Deletes all API keys and preview links. */
  changePassword(fields: PasswordChange, options?: CallOptions): Promise<void>
  /**
   * Asks for a mail with a link that resets the password, if there is an account with the address. Rejects
   * with a 404 when the service sends no mail.
   */
  requestPasswordReset(email: string, options?: CallOptions): Promise<void>
  /** Sets a new password with the token of a link. Ends all sessions, keys and preview links. */
  resetPassword(fields: PasswordReset, options?: CallOptions): Promise<void>
}

export function createPasswords (api: Api): Passwords {
  return {
    async changePassword (fields, { signal } = {}) {
      await unwrap(api.PUT('/auth/password', { body: withConfirmation(fields), signal }))
    },
    async requestPasswordReset (email, { signal } = {}) {
      await unwrap(api.POST('/auth/password_resets', { body: { email }, signal }))
    },
    async resetPassword (fields, { signal } = {}) {
      await unwrap(api.PUT('/auth/password_resets', { body: withConfirmation(fields), signal }))
    }
  }
}

/** Adds the confirmation of a new password if it is missing. */
export const withConfirmation = <Fields extends NewPassword>(fields: Fields) => ({
  ...fields,
  password_confirmation: fields.password_confirmation ?? fields.password
})
