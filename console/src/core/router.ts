import { useLayoutEffect } from 'preact/hooks'
import { clearAnnouncement } from './announcements.tsx'
import { createStore, useStore } from './store.ts'

// The path of a screen is in the fragment of the URL, so that the service has one document to serve.

/** The segments of a path: `#/pages/123/history` is `['pages', '123', 'history']`. */
export type Path = readonly string[]

/**
 * Asks before the person leaves a screen with unsaved changes. Returns whether to leave.
 *
 * @param wanted where to go, which may be a part of the same screen; undefined at a sign-out
 */
export type LeaveGuard = (wanted: Path | undefined) => boolean | Promise<boolean>

/** An entry in the history of the browser. */
interface Entry {
  readonly hash: string
  /** Grows by one from each entry to the next. It tells how far it is back to the screen that is shown. */
  readonly index: number
}

/** How a screen was left. */
export interface Place {
  /** What was loaded. */
  list?: unknown
  /** How far it was scrolled, in pixels. */
  top?: number
}

const pathOf = (hash: string): Path => hash.replace(/^#?\/?|\?.*/g, '').split('/').filter(Boolean).map(decode)

const pathStore = createStore<Path>(pathOf(location.hash))
let guard: LeaveGuard | undefined
/** Where the browser is. */
let here: Entry = { hash: location.hash, index: 0 }
/** The entry of the screen that is shown. */
let shown = here
/** Where `navigate` or `redirect` goes. */
let target: string | undefined
/** The index of the entry that the person has chosen to leave for. */
let leavingFor: number | undefined
/** By the index of the entry. */
const places = new Map<number, Place>()

// The browser would scroll before the screen is there.
history.scrollRestoration = 'manual'
noteEntry()
addEventListener('popstate', noteEntry)
addEventListener('hashchange', change)

/** Notes where the browser is. An entry without an index is new, or a link to the same screen replaced it. */
function noteEntry (): void {
  const { hash } = location
  const index: number = history.state?.index ?? here.index + (hash === here.hash ? 0 : 1)
  if (history.state?.index === undefined) places.delete(index)
  keepInHistory({ index })
  here = { hash, index }
  if (hash === shown.hash) shown = here
}

async function change (): Promise<void> {
  if (here.hash === shown.hash) return
  const wanted = here
  const isDecided = leavingFor === wanted.index
  leavingFor = undefined
  const response = isDecided || guard === undefined || guard(pathOf(wanted.hash))
  if (response === true) {
    // What is announced before `navigate` is for the next screen.
    if (wanted.hash !== target) clearAnnouncement()
    target = undefined
    getPlace().top = scrollY
    shown = wanted
    pathStore.set(pathOf(wanted.hash))
    return
  }
  // Until the person has decided, the browser is at the screen that is shown.
  const distance = wanted.index - shown.index
  history.go(-distance)
  if (!await response) return
  leavingFor = wanted.index
  history.go(distance)
}

/** Keeps something in this entry of the browser's history, beside what is there. */
export function keepInHistory (values: object): void {
  history.replaceState({ ...history.state, ...values }, '')
}

/** Returns the place at which this entry of the history was left, to keep it up to date. */
export function getPlace (): Place {
  const place = places.get(shown.index) ?? {}
  places.set(shown.index, place)
  return place
}

/** Returns the query in the address of the screen, such as `q=text`. */
export const getQuery = (): string => /\?(.*)/.exec(shown.hash)?.[1] ?? ''

/** Replaces the query in the address of the screen, which stays. */
export function replaceQuery (query: string): void {
  if (location.hash !== shown.hash) return // the person is leaving
  const path = shown.hash.replace(/\?.*/, '') || '#/'
  history.replaceState(history.state, '', query === '' ? path : `${path}?${query}`)
  shown = here = { ...shown, hash: location.hash }
}

/** Returns the link to a screen. */
export const href = (...path: Path): string => `#/${path.map(encodeURIComponent).join('/')}`

/** Goes to a screen. */
export function navigate (...path: Path): void {
  target = href(...path)
  location.hash = target
}

/** Goes to a screen after `mayLeave`, without asking again. */
export function leaveFor (...path: Path): void {
  leavingFor = here.index + 1
  navigate(...path)
}

/** Goes to a screen in place of this one, so that Back doesn't lead to this one again. */
export function redirect (...path: Path): void {
  const { index } = here
  target = href(...path)
  location.replace(target)
  keepInHistory({ index })
  noteEntry()
}

/** Returns the path of the screen to show. */
export const usePath = (): Path => useStore(pathStore)

/** Whether the screen has unsaved changes. */
export const hasUnsaved = (): boolean => guard !== undefined

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
