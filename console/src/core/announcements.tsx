import { useEffect, useState } from 'preact/hooks'
import { createStore, useStore } from './store.ts'

const SHOWN_MS = 8000
/** By then a dialog that closes is gone. */
const SAID_AFTER_MS = 100

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
  useEffect(() => {
    setSaid('')
    if (text === '') return
    const timers = [
      setTimeout(() => setSaid(text), SAID_AFTER_MS),
      setTimeout(() => announcement.set({ text: '', id }), SHOWN_MS)
    ]
    return () => timers.forEach(clearTimeout)
  }, [text, id])
  return (
    <div class='announcements' role='status'>
      {said !== '' && <p class='announcements__text'>{said}</p>}
    </div>
  )
}
