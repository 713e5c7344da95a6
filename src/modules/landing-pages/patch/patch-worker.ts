import { applyJsonPatch } from './json-patch.ts'
import { applyMergePatch } from './merge-patch.ts'
import { PatchError, type PatchProblem } from './patch-error.ts'
import type { DocumentLimits } from './patched-document.ts'

// What patcher.ts runs in a worker thread, so that a large patch doesn't block the event loop.

const KINDS = { json: applyJsonPatch, merge: applyMergePatch }

export interface PatchTask {
  readonly kind: keyof typeof KINDS
  readonly document: string
  readonly patch: string
  readonly limits: DocumentLimits
}

/** The patched document, or why there is none. Errors of own classes would not survive the way back. */
export type PatchOutcome = { readonly document: string } | { readonly problem: PatchProblem }

export default function runPatch ({ kind, document, patch, limits }: PatchTask): PatchOutcome {
  try {
    return { document: KINDS[kind](document, patch, limits) }
  } catch (error) {
    if (!(error instanceof PatchError)) throw error
    return { problem: { status: error.status, messages: error.messages } }
  }
}
