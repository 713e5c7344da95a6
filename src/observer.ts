/**
 * Is told of each question to a server as it is asked; what it returns is called with its end, and with the error if
 * there was one. Nothing that it does may throw.
 *
 * @param text of the question, without its values
 */
export type Observer = (text: string) => (error?: unknown) => void

/** One for all of those that are there; undefined for none, so that nothing is paid for nobody. */
export function observedBy (...observers: readonly (Observer | undefined)[]): Observer | undefined {
  const all = observers.filter((observer) => observer !== undefined)
  if (all.length < 2) return all[0]
  return (text) => {
    const ends = all.map((observer) => observer(text))
    return (error) => { for (const end of ends) end(error) }
  }
}
