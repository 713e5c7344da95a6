import { LandfallError } from '@landfall/client'

/** Whether the service doesn't have what was asked for. */
export const isMissing = (error: unknown): boolean => error instanceof LandfallError && error.status === 404

/** Accepts that what is to be deleted is already gone, for example by another tab. */
export function ignoreMissing (error: unknown): void {
  if (!isMissing(error)) throw error
}
