import { useRef, useState } from 'preact/hooks'
import { announce, clearAnnouncement } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'

/** What is under way. */
export type Step = 'save' | 'draft' | 'publish'

/** Saving and publishing, one after the other, so that what is published was saved. */
export interface Steps {
  readonly running: Step | undefined
  /** Why the last step has failed. */
  readonly error: unknown
  /** Runs a step after those before. */
  run(step: Step, act: () => Promise<unknown>): Promise<void>
  /** Runs something else after the steps before. Its errors are the caller's. */
  enqueue(act: () => Promise<void>): Promise<void>
  /** Runs the last step again. */
  retry(): unknown
}

export function useSteps (): Steps {
  const [step, setStep] = useState<Step>()
  const acting = useAction(async (act: () => Promise<unknown>) => {
    clearAnnouncement()
    await act()
  })
  const again = useRef<() => unknown>(() => {})
  const ended = useRef<Promise<unknown>>(Promise.resolve())
  const isPublishing = useRef(false)
  const enqueue = async (act: () => Promise<void>): Promise<void> => {
    const action = ended.current.then(act)
    ended.current = action.catch(() => {})
    await action
  }
  const run = async (next: Step, act: () => Promise<unknown>): Promise<void> => {
    // What is typed meanwhile is part of no decision: it must neither begin a draft nor go live.
    if (isPublishing.current) return announce('The page is being published. Try again afterwards.')
    isPublishing.current = next === 'publish'
    again.current = async () => await run(next, act)
    await enqueue(async () => {
      setStep(next)
      await acting.run(act)
      if (next === 'publish') isPublishing.current = false
    })
  }
  return {
    running: acting.isRunning ? step : undefined,
    error: acting.error,
    run,
    enqueue,
    retry: () => again.current()
  }
}
