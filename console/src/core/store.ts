import { useEffect, useState } from 'preact/hooks'

/** A value that several components show. */
export interface Store<T> {
  get(): T
  set(value: T): void
  /** Calls `listener` after each change. Returns a function that ends this. */
  subscribe(listener: () => void): () => void
}

export function createStore<T> (initial: T): Store<T> {
  const listeners = new Set<() => void>()
  let current = initial
  return {
    get: () => current,
    set (value) {
      current = value
      for (const listener of [...listeners]) listener()
    },
    subscribe (listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    }
  }
}

/** Returns the value of a store, and renders the component again when it changes. */
export function useStore<T> (store: Store<T>): T {
  const [value, setValue] = useState(store.get())
  useEffect(() => {
    const update = () => setValue(() => store.get())
    update() // it may have changed since the first rendering
    return store.subscribe(update)
  }, [store])
  return value
}
