import { announce } from './announcements.tsx'
import { useAction, type Action } from './load.ts'
import { landfall } from './service.ts'

/** What a person is told before opening the link in the mail. */
export const CONFIRMING_SIGNS_OUT =
  'Confirming signs you out here and everywhere else, and deletes your API keys and preview links. So save ' +
  'your work first.'

/** Sends a person another mail with the link that confirms the address. */
export function useConfirmationMail (email: string): Action<[]> {
  return useAction(async () => {
    await landfall.auth.requestEmailConfirmation()
    announce(`A mail is on its way to ${email}.`)
  })
}
