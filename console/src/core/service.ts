import { createLandfallClient } from '@landfall/client'
import { endSession } from './session.ts'
import { fetchWithProgress } from './upload-fetch.ts'

/** The console is at `/console/`, below the path of BASE_URL. */
export const baseUrl = new URL('..', document.baseURI).href

/** If the client would have to wait longer, it gives up, and the screen shows a countdown instead. */
const RETRY = { maxRetries: 2, maxWaitMs: 3000 }

export const landfall = createLandfallClient({
  baseUrl,
  fetch: fetchWithProgress,
  retry: RETRY,
  cookieSession: true,
  onSessionEnded: endSession
})
