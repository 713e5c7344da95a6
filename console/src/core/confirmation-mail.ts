import { announce } from './announcements.tsx'
import { useAction, type Action } from './load.ts'
import { landfall } from './service.ts'

/** Sends a person another mail with the link that confirms the address. */
export function useConfirmationMail (email: string): Action<[]> {
  return useAction(async () => {
    await landfall.auth.requestEmailConfirmation()
    announce(`A mail is on its way to ${email}.`)
  })
}
