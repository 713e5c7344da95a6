import { ALIVE } from './session-repository.ts'

/** What a signed-in user has proved with the password. Changes check that it still holds. */
export interface PasswordProof {
  readonly userId: number
  /** The hash that the password was compared with. */
  readonly passwordHash: string
  readonly sessionId: string
}

/** Returns a condition for `users`: the session of the user has not ended while the password was compared. */
export const hasSessionSql = (sessionId: string): string =>
  `EXISTS (SELECT FROM sessions s WHERE s.id = ${sessionId}::uuid AND s.user_id = users.id AND ${ALIVE})`
