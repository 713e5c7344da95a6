import type { User } from '@landfall/client'
import { sessionStore } from '../../core/session.ts'
import { useStore } from '../../core/store.ts'

/** Returns the user whose screens are shown, also after the session has ended. */
export function useUser (): User {
  const session = useStore(sessionStore)
  if (!('user' in session)) throw new Error('Nobody is signed in')
  return session.user
}
