import { PatchError } from '../../packages/json-text/src/index.ts'

/** Limits that only tests of limits meet. */
export const LIMITS = { maxBytes: 1024 * 1024, maxLevels: 100 }

/** Returns the error of a patch that is refused. */
export function refusalOf (run: () => unknown): PatchError {
  try {
    run()
  } catch (error) {
    if (error instanceof PatchError) return error
    throw error
  }
  throw new Error('The patch was not refused')
}
