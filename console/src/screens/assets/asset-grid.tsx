import type { Asset } from '@landfall/client'
import type { ComponentChild } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ListView, type Parameter } from '../../components/list-view.tsx'
import { useList, type Search, type SearchedList } from '../../core/list.ts'
import { landfall } from '../../core/service.ts'
import { onUploaded } from './uploads.ts'

/** Assets in one part. */
const PART = 60
const CHOICES: readonly Parameter[] = [
  ['type', 'Type', [
    ['All types', ''],
    ['Pictures', 'image'],
    ['Sound', 'audio'],
    ['Videos', 'video'],
    ['Fonts', 'font'],
    ['Documents', 'document'],
    ['Other files', 'other']
  ]],
  ['sort', 'Order', [['Newest first', ''], ['A to Z', 'filename'], ['Largest first', 'byte_size']]]
]

export interface AssetList extends SearchedList<Asset> {
  /** The asset that was uploaded last, if it is not what the person looks for. */
  readonly missed: Asset | undefined
}

/**
 * Loads the assets of the account. Loads them again after each upload.
 *
 * @param initial what is looked for at first
 */
export function useAssets (isScreen: boolean, initial?: Search): AssetList {
  const list = useList(landfall.assets.listPage, PART, isScreen, initial)
  const [uploaded, setUploaded] = useState<Asset>()
  useEffect(() =>
    onUploaded((asset) => {
      setUploaded(asset)
      list.reload()
    }), [])
  useEffect(() => setUploaded(undefined), [list.query])
  const isMissed = !list.isLoading && list.items?.some(({ id }) => id === uploaded?.id) === false
  return { ...list, missed: isMissed ? uploaded : undefined }
}

const SKELETON = (
  <li class='asset-grid__item'>
    <span class='asset-grid__tile'>
      <span class='thumbnail' />
      <span class='asset-grid__name'>&nbsp;</span>
      <span class='asset-grid__facts'>&nbsp;</span>
    </span>
  </li>
)

interface AssetGridProps {
  readonly list: AssetList
  /** Renders the link or the button of an asset. */
  readonly children: (asset: Asset) => ComponentChild
}

/** Assets to search, as tiles. */
export function AssetGrid ({ list, children }: AssetGridProps) {
  const { missed, setSearch } = list
  return (
    <>
      {missed !== undefined && (
        <p class='notice asset-grid__missed'>
          <bdi>{missed.filename}</bdi> is uploaded. It isn’t among the assets that you see.{' '}
          <Button kind='quiet' onClick={() => setSearch({})}>Show the newest</Button>
        </p>
      )}
      <ListView
        list={list}
        noun='asset'
        searchedBy='file name'
        choices={CHOICES}
        listClass='asset-grid'
        skeleton={SKELETON}
      >
        {(asset) => <li class='asset-grid__item' key={asset.id}>{children(asset)}</li>}
      </ListView>
    </>
  )
}
