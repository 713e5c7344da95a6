// Why a patch can't be applied. The child process passes it on as plain data.

/** 409: a `test` failed. 413: the result is too large. 422: anything else, one sentence per problem. */
export interface PatchProblem {
  readonly status: 409 | 413 | 422
  readonly messages: readonly string[]
}

/** A patch can't be applied. */
export class PatchError extends Error implements PatchProblem {
  readonly status: 409 | 413 | 422
  readonly messages: readonly string[]

  constructor (status: 409 | 413 | 422, messages: readonly string[]) {
    super(messages.join('; '))
    this.name = 'PatchError'
    this.status = status
    this.messages = messages
  }
}

/** Creates the error for a malformed patch, or one that doesn't fit the document. */
export const createInvalidPatchError = (message: string): PatchError => new PatchError(422, [message])

const MAX_SHOWN = 100

/** Formats a name or path for a sentence: with quotes, and not too long. */
export const quote = (text: string): string =>
  JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
