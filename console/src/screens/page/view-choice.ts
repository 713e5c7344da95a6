import { whyNoFields } from '../../fields/fields-reason.ts'
import type { ViewName } from './use-views.ts'

// Pages open as fields. The browser remembers which ones a person last had as text.

const KEY = 'landfall.text-pages'
/** The latest ones. */
const MAX_PAGES = 200

function readIds (): readonly string[] {
  try {
    const ids: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : []
  } catch {
    return [] // storage is turned off
  }
}

/** Returns the view in which a page opens. */
export const firstView = (id: string, text: string): ViewName =>
  readIds().includes(id) || whyNoFields(text) !== undefined ? 'text' : 'fields'

/** Remembers the view that a person has chosen for a page. */
export function rememberView (id: string, view: ViewName): void {
  const others = readIds().filter((other) => other !== id)
  try {
    localStorage.setItem(KEY, JSON.stringify(view === 'text' ? [id, ...others].slice(0, MAX_PAGES) : others))
  } catch {
    // Storage is full or turned off: the next visit begins with fields.
  }
}
