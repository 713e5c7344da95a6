import type { User } from '@landfall/client'
import { endSession, sessionStore, showUser } from './session.ts'
import { baseUrl, landfall } from './service.ts'
import { forgetUnsavedOfOthers } from './unsaved-text.ts'

// All tabs of a browser share one session, because they share its cookie. They tell each other who is signed
// in.

interface Message {
  /** Undefined after a sign-out. */
  readonly userId: number | undefined
}

const channel = new BroadcastChannel(`landfall ${baseUrl}`)

channel.addEventListener('message', async ({ data: { userId } }: MessageEvent<Message>) => {
  forgetUnsavedOfOthers(userId)
  const session = sessionStore.get()
  const isSame = session.status === 'signed-in' && session.user.id === userId
  if (isSame) return
  if (session.status === 'signed-in') return endSession()
  // Another user would get other screens, and what is not saved on this one would be lost.
  if (userId === undefined || (session.status === 'ended' && session.user.id !== userId)) return
  // If it fails, this tab asks the person to sign in, as before.
  const user = await landfall.auth.resume().catch(() => undefined)
  if (user !== undefined) showUser(user)
})

/** Shows a user who has just signed in here, in all tabs. */
export function enter (user: User): void {
  showUser(user)
  tell({ userId: user.id })
}

/** Shows the sign-in, after the session of this browser has ended or the account was deleted. */
export function leave (): void {
  forgetUnsavedOfOthers(undefined)
  sessionStore.set({ status: 'signed-out' })
  tell({ userId: undefined })
}

const tell = (message: Message): void => channel.postMessage(message)
