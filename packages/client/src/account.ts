import type { components } from './api.ts'
import { createError } from './errors.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

// What a signed-in person does with the account, besides signing in and out.

/** A sign-in of the account, with the time and the client of its last use. */
export type AccountSession = components['schemas']['Session']

/** Where the account is signed in. */
export interface AccountSessions {
  /** Iterates over the sessions of the account, newest first. */
  sessions(options?: ListOptions): AsyncGenerator<AccountSession, void, undefined>
  /** Returns one part of the list. */
  sessionsPage(options?: ListOptions): Promise<List<AccountSession>>
  /** Ends a session. To end the one of this client, use `signOut`. */
  endSession(id: string, options?: CallOptions): Promise<void>
  /** Ends all sessions but the one of this client. */
  endOtherSessions(options?: CallOptions): Promise<void>
}

/** The settings of the account, such as the address of its website. */
export type AccountSettings = components['schemas']['AccountSettings']

export interface AccountSettingsCalls {
  /** Returns the settings of the account. */
  getSettings(options?: CallOptions): Promise<AccountSettings>
  /** Replaces the settings of the account. */
  putSettings(settings: AccountSettings, options?: CallOptions): Promise<AccountSettings>
}

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

export interface Account extends AccountSessions, AccountSettingsCalls, EmailConfirmations, Passwords {}

/** @param anonymousApi a client that sends no access token */
export function createAccount (api: Api, anonymousApi: Api): Account {
  const sessionsPage = async ({ signal, ...query }: ListOptions = {}) =>
    await unwrapList(api.GET('/auth/sessions', { params: { query }, signal }))
  return {
    sessions: (options = {}) => iterate(sessionsPage, options),
    sessionsPage,
    async endSession (id, { signal } = {}) {
      await unwrapDeletion(api.DELETE('/auth/sessions/{id}', { params: { path: { id } }, signal }))
    },
    async endOtherSessions ({ signal } = {}) {
      await unwrap(api.DELETE('/auth/sessions', { signal }))
    },
    async getSettings ({ signal } = {}) {
      return (await unwrap(api.GET('/auth/settings', { signal }))).data
    },
    async putSettings (body, { signal } = {}) {
      return (await unwrap(api.PUT('/auth/settings', { body, signal }))).data
    },
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
    },
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
