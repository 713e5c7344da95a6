import type { Asset } from '@landfall/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useReloadAfterSignIn } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { onUploaded } from './uploads.ts'

/** Assets that are loaded at once. */
const PART = 60

export interface AssetCollection {
  /** Newest first; undefined before the first answer. */
  readonly assets: readonly Asset[] | undefined
  readonly hasMore: boolean
  readonly isLoading: boolean
  readonly error: unknown
  /** Loads the next part, or the same part again after an error. */
  loadMore(): void
}

type State = Omit<AssetCollection, 'loadMore'>

/** Loads the assets of the account part by part, and adds those that are uploaded meanwhile. */
export function useAssets (): AssetCollection {
  const [state, setState] = useState<State>({
    assets: undefined,
    hasMore: false,
    isLoading: true,
    error: undefined
  })
  const [attempt, setAttempt] = useState(0)
  const cursor = useRef<string | undefined>(undefined)
  useEffect(() => {
    const controller = new AbortController()
    const { signal } = controller
    landfall.assets.listPage({ limit: PART, cursor: cursor.current, signal }).then(
      ({ items, next }) => {
        if (signal.aborted) return
        cursor.current = next
        setState(({ assets = [] }) => ({
          assets: [...assets, ...items.filter(({ id }) => assets.every((known) => known.id !== id))],
          hasMore: next !== undefined,
          isLoading: false,
          error: undefined
        }))
      },
      (error: unknown) => {
        if (!signal.aborted) setState((before) => ({ ...before, isLoading: false, error }))
      }
    )
    return () => controller.abort()
  }, [attempt])
  useEffect(() =>
    onUploaded((asset) => {
      setState((before) => ({ ...before, assets: [asset, ...before.assets ?? []] }))
    }), [])
  const loadMore = () => {
    setState((before) => ({ ...before, isLoading: true, error: undefined }))
    setAttempt((count) => count + 1)
  }
  useReloadAfterSignIn(state.error, loadMore)
  return { ...state, loadMore }
}
