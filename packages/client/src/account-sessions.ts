import type { components } from './api.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type ListOptions } from './responses.ts'

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

export function createAccountSessions (api: Api): AccountSessions {
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
    }
  }
}
