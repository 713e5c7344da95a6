import { LandfallError } from '@landfall/client'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { sessionStore } from './session.ts'
import { useStore } from './store.ts'

export interface Loaded<T> {
  /** The result of the last successful load. It stays during the next one, and after an error. */
  readonly data: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
  reload(): void
}

/**
 * Loads data for a screen. Loads it again when one of `inputs` changes, when `reload` is called, and when the
 * person has signed in again.
 *
 * @param load gets a signal that is aborted when its result is no longer needed
 */
export function useLoad<T> (
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[]
): Loaded<T> {
  const [attempt, setAttempt] = useState(0)
  const [state, setState] = useState<Omit<Loaded<T>, 'reload'>>({
    data: undefined,
    error: undefined,
    isLoading: true
  })
  useEffect(() => {
    const controller = new AbortController()
    setState(({ data }) => ({ data, error: undefined, isLoading: true }))
    load(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) setState({ data, error: undefined, isLoading: false })
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setState(({ data }) => ({ data, error, isLoading: false }))
      }
    )
    return () => controller.abort()
  }, [...inputs, attempt])
  const reload = useCallback(() => setAttempt((count) => count + 1), [])
  useAfterSignIn(state.error, reload)
  return { ...state, reload }
}

/** Calls `act` when the person has signed in again, if the error was that the session had ended. */
export function useAfterSignIn (error: unknown, act: () => void): void {
  const { status } = useStore(sessionStore)
  useEffect(() => {
    if (status === 'signed-in' && error instanceof LandfallError && error.status === 401) act()
  }, [status])
}

export interface Action<Input extends readonly unknown[]> {
  readonly isRunning: boolean
  readonly error: unknown
  /** Starts the action, unless it is running. Resolves to whether it succeeded. */
  run(...input: Input): Promise<boolean>
  /** Takes away the error, because what caused it has changed. */
  forget(): void
}

const IDLE = { isRunning: false, error: undefined }

/**
 * Runs an action, such as saving. While it runs, it can't be started again. `ErrorNotice` shows its error
 * until the next attempt. The error that the session has ended disappears at the next sign-in.
 */
export function useAction<Input extends readonly unknown[]> (
  act: (...input: Input) => Promise<unknown>
): Action<Input> {
  const [state, setState] = useState<{ isRunning: boolean, error: unknown }>(IDLE)
  useAfterSignIn(state.error, () => setState(IDLE))
  const isRunning = useRef(false) // the second click may come before the component is rendered again
  return {
    ...state,
    forget () {
      if (!isRunning.current) setState(IDLE)
    },
    async run (...input) {
      if (isRunning.current) return false
      isRunning.current = true
      setState({ isRunning: true, error: undefined })
      try {
        await act(...input)
        setState(IDLE)
        return true
      } catch (error) {
        setState({ isRunning: false, error })
        return false
      } finally {
        isRunning.current = false
      }
    }
  }
}
