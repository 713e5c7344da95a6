import type { User } from '@landfall/client'
import { createStore, useStore } from './store.ts'
import { forgetUnsavedOfOthers } from './unsaved-text.ts'

/** Who is signed in. After a session has `ended`, its user may sign in again on the same screen. */
export type SessionState =
  | { readonly status: 'starting' }
  | { readonly status: 'signed-out' }
  | { readonly status: 'signed-in', readonly user: User }
  | { readonly status: 'ended', readonly user: User }

export const sessionStore = createStore<SessionState>({ status: 'starting' })

/** The session is over: it was ended elsewhere, or has expired. Nothing on the screen is lost. */
export function endSession (): void {
  const session = sessionStore.get()
  if (session.status === 'ended') return // another request has found that out, too
  sessionStore.set(session.status === 'signed-in' ? { status: 'ended', user: session.user }
    : { status: 'signed-out' })
}

/** Shows a user who has signed in, or whose record has changed. */
export function showUser (user: User): void {
  forgetUnsavedOfOthers(user.id)
  sessionStore.set({ status: 'signed-in', user })
}

/** Returns the user whose screens are shown, also after the session has ended. */
export function useUser (): User {
  const session = useStore(sessionStore)
  if (!('user' in session)) throw new Error('Nobody is signed in')
  return session.user
}
