import type { Asset } from '@landfall/client'
import type { ComponentChild } from 'preact'
import { useEffect } from 'preact/hooks'
import { ListView, type Parameter } from '../../components/list-view.tsx'
import { useList, type SearchedList } from '../../core/list.ts'
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

/** Loads the assets of the account, and adds those that are uploaded meanwhile. */
export function useAssets (isScreen: boolean): SearchedList<Asset> {
  const list = useList(landfall.assets.listPage, PART, isScreen)
  useEffect(() => onUploaded(list.add), [])
  return list
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
  readonly list: SearchedList<Asset>
  /** Renders the link or the button of an asset. */
  readonly children: (asset: Asset) => ComponentChild
}

/** Assets to search, as tiles. */
export function AssetGrid ({ list, children }: AssetGridProps) {
  return (
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
  )
}
