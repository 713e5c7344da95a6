import { applyJsonPatch, applyMergePatch, PatchError, type DocumentLimits,
  type PatchProblem } from '#json-text'
import { serveTasks, type HandlerResponse } from '../../../infra/isolated-process/serve-tasks.ts'

// The child process that applies patches.

const KINDS = { json: applyJsonPatch, merge: applyMergePatch }

export type PatchKind = keyof typeof KINDS

export interface PatchTask {
  readonly document: string
  readonly patch: string
  readonly limits: DocumentLimits
}

/** The patched document, or why there is none. Errors of own classes would not survive the way back. */
export type PatchOutcome = { readonly document: string } | { readonly problem: PatchProblem }

const handlerOf = (apply: typeof applyJsonPatch) =>
(
  { document, patch, limits }: PatchTask
): HandlerResponse<PatchOutcome> => {
  try {
    return { result: { document: apply(document, patch, limits) } }
  } catch (error) {
    if (!(error instanceof PatchError)) throw error
    return { result: { problem: { status: error.status, messages: error.messages } } }
  }
}

serveTasks({ json: handlerOf(KINDS.json), merge: handlerOf(KINDS.merge) })
