import { applyJsonPatch, applyMergePatch, PatchError, type DocumentLimits,
  type PatchProblem } from '#json-text'
import { serveTasks, type HandlerResponse } from '../../../infra/isolated-process/serve-tasks.ts'

// The child process that applies patches.

export type PatchKind = 'json' | 'merge'

export interface PatchTask {
  readonly document: string
  readonly patch: string
  readonly limits: DocumentLimits
}

/** The patched document, or why there is none. Errors of own classes would not survive the way back. */
export type PatchOutcome = { readonly document: string } | { readonly problem: PatchProblem }

function attempt (apply: typeof applyJsonPatch, task: PatchTask): HandlerResponse<PatchOutcome> {
  try {
    return { result: { document: apply(task.document, task.patch, task.limits) } }
  } catch (error) {
    if (!(error instanceof PatchError)) throw error
    return { result: { problem: { status: error.status, messages: error.messages } } }
  }
}

serveTasks({
  json: (task: PatchTask) => attempt(applyJsonPatch, task),
  merge: (task: PatchTask) => attempt(applyMergePatch, task)
})
