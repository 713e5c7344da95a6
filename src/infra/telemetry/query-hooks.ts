/**
 * A function that is called before each query. It returns a function that is called after the query, with the
 * error if the query failed. Neither function may throw.
 *
 * @param text the query without its values
 */
export type QueryHook = (text: string) => (error?: unknown) => void

/** Combines several hooks into one. Returns undefined if all of them are undefined. */
export function combineQueryHooks (...queryHooks: readonly (QueryHook | undefined)[]): QueryHook | undefined {
  const hooks = queryHooks.filter((hook) => hook !== undefined)
  if (hooks.length < 2) return hooks[0]
  return (text) => {
    const ends = hooks.map((hook) => hook(text))
    return (error) => {
      for (const end of ends) end(error)
    }
  }
}
