/** Calls `look` each time the person comes back to the tab. Returns a function that ends this. */
export function onReturn (look: () => unknown): () => void {
  const listen = () => {
    if (document.visibilityState === 'visible') look()
  }
  document.addEventListener('visibilitychange', listen)
  return () => document.removeEventListener('visibilitychange', listen)
}
