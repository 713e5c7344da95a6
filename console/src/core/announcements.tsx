import { useEffect, useRef, useState } from 'preact/hooks'
import { createStore, useStore } from './store.ts'

const SHOWN_MS = 8000
/** By then a dialog that closes is gone. */
const SAID_AFTER_MS = 100
const MARGIN_PX = 8

/** The id makes the same sentence twice two announcements. */
const announcement = createStore<{ readonly text: string, readonly id: number }>({ text: '', id: 0 })

/** Shows what was done for some seconds, and lets screen readers say it. */
export function announce (text: string): void {
  announcement.set({ text, id: announcement.get().id + 1 })
}

/** Takes away what was announced, because it no longer holds. */
export const clearAnnouncement = (): void => announce('')

/**
 * The place of the announcements. It is always there, because screen readers notice changes only. A dialog
 * has its own, because what is behind it is silent.
 */
export function Announcements () {
  const { text, id } = useStore(announcement)
  const [said, setSaid] = useState('')
  const shown = useRef<HTMLParagraphElement>(null)
  useEffect(() => {
    setSaid('')
    if (text === '') return
    const timers = [
      setTimeout(() => setSaid(text), SAID_AFTER_MS),
      setTimeout(() => announcement.set({ text: '', id }), SHOWN_MS)
    ]
    return () => timers.forEach(clearTimeout)
  }, [text, id])
  useEffect(() => {
    if (said === '') return
    uncoverFocus(shown.current)
    const dismiss = ({ key }: KeyboardEvent) => {
      if (key === 'Escape') clearAnnouncement()
    }
    addEventListener('keydown', dismiss)
    return () => removeEventListener('keydown', dismiss)
  }, [said])
  return (
    <div class='announcements' role='status'>
      {said !== '' && <p class='announcements__text' ref={shown} onClick={clearAnnouncement}>{said}</p>}
    </div>
  )
}

/** Scrolls until what has the focus, such as a field or the editor, is above an announcement. */
function uncoverFocus (announced: Element | null): void {
  if (document.querySelector('dialog[open]') !== null) return // it makes room
  const focused = document.activeElement?.getBoundingClientRect()
  const cover = announced?.getBoundingClientRect()
  if (focused === undefined || cover === undefined || focused.height > cover.top) return
  const isBeside = focused.right <= cover.left || focused.left >= cover.right || focused.top >= cover.bottom
  const hidden = focused.bottom - cover.top
  if (!isBeside && hidden > 0) scrollBy(0, hidden + MARGIN_PX)
}
