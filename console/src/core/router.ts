import { useLayoutEffect } from 'preact/hooks'
import { createStore, useStore } from './store.ts'

// The path of a screen is in the fragment of the URL, so that the service has one document to serve.

/** The segments of a path: `#/pages/123/history` is `['pages', '123', 'history']`. */
export type Path = readonly string[]

/**
 * Asks before the person leaves a screen with unsaved changes. Resolves to whether to leave.
 *
 * @param wanted where to go, which may be a part of the same screen; undefined at a sign-out
 */
export type LeaveGuard = (wanted: Path | undefined) => Promise<boolean>

const pathOf = (hash: string): Path => hash.replace(/^#?\/?/, '').split('/').filter(Boolean).map(decode)

const pathStore = createStore<Path>(pathOf(location.hash))
let guard: LeaveGuard | undefined
let shownHash = location.hash

addEventListener('hashchange', change)

async function change (): Promise<void> {
  const { hash } = location
  if (hash === shownHash) return
  if (guard !== undefined) {
    const wanted = hash
    // Until the person has decided, the address is that of the screen that is shown.
    history.replaceState(null, '', shownHash === '' ? '#/' : shownHash)
    if (!await guard(pathOf(wanted))) return
    history.replaceState(null, '', wanted)
  }
  shownHash = location.hash
  pathStore.set(pathOf(shownHash))
}

/** Returns the link to a screen. */
export const href = (...path: Path): string => `#/${path.map(encodeURIComponent).join('/')}`

/** Goes to a screen. */
export function navigate (...path: Path): void {
  location.hash = href(...path)
}

/** Goes to a screen in place of this one, so that Back doesn't lead to this one again. */
export function redirect (...path: Path): void {
  location.replace(href(...path))
}

/** Returns the path of the screen to show. */
export const usePath = (): Path => useStore(pathStore)

/** Asks the person, if the screen has unsaved changes. Resolves to whether to leave it. */
export async function mayLeave (): Promise<boolean> {
  return guard === undefined || await guard(undefined)
}

/** Calls `ask` before another screen is shown, and lets the browser ask before the tab is closed. */
export function useLeaveGuard (ask: LeaveGuard | undefined): void {
  // useEffect would remove the guard only after painting. Until then it would refuse the next address.
  useLayoutEffect(() => {
    if (ask === undefined) return
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    guard = ask
    addEventListener('beforeunload', warn)
    return () => {
      if (guard === ask) guard = undefined
      removeEventListener('beforeunload', warn)
    }
  }, [ask])
}

function decode (segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
