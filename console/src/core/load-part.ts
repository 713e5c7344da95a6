import { getOwnVersion, loadSettings } from './settings.ts'

/** A part of the console is gone, because the service has another version of the console. */
export class UpdatedError extends Error {
  constructor () {
    super('The console was updated. Reload this page to go on.')
  }
}

/**
 * Loads code of the console that the first load leaves out.
 *
 * @throws {UpdatedError} if it can't be loaded, and the service has another version of the console
 */
export async function loadPart<T> (load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (error) {
    const isUpdated = await loadSettings().then(({ version }) => version !== getOwnVersion(), () => false)
    throw isUpdated ? new UpdatedError() : error
  }
}
