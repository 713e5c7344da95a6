/** By then a dialog that has closed has given the focus back. */
const SETTLED_MS = 100

/**
 * Moves the focus to the title of the screen or the dialog when what had it is removed. Otherwise the next
 * Tab would begin anew, and screen readers would say nothing.
 */
export function keepFocus (): void {
  let focused: HTMLElement | undefined
  /** Scrolls only for people who use the keyboard. */
  let isFocusVisible = false
  addEventListener('focusin', ({ target }) => {
    focused = target as HTMLElement
    isFocusVisible = focused.matches(':focus-visible')
  })
  addEventListener('focusout', ({ target }) => {
    // A click elsewhere takes the focus away on purpose. Some browsers raise this event for a removal, too.
    queueMicrotask(() => {
      if (focused === target && focused?.isConnected === true) focused = undefined
    })
  })
  const isLost = () => focused?.isConnected === false && document.activeElement === document.body
  const focusTitle = () => {
    if (!isLost()) return
    const title = [...document.querySelectorAll<HTMLElement>('h1, dialog[open] > h2')].at(-1)
    if (title === undefined) return
    title.tabIndex = -1
    title.focus({ preventScroll: !isFocusVisible })
  }
  new MutationObserver(() => {
    if (isLost()) setTimeout(focusTitle, SETTLED_MS)
  }).observe(document.body, { childList: true, subtree: true })
}
