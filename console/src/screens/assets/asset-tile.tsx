import type { Asset } from '@landfall/client'
import { formatBytes } from '../../components/format.tsx'
import { Thumbnail, typeName } from './thumbnail.tsx'

/** What a grid shows of an asset. It stands in a link or a button. */
export function AssetTile ({ asset }: { readonly asset: Asset }) {
  const { filename, byte_size: byteSize, width, height } = asset
  return (
    <>
      <Thumbnail asset={asset} sizes='12rem' />
      <bdi class='asset-grid__name'>{filename}</bdi>{' '}
      <span class='asset-grid__facts'>
        {width !== null && height !== null ? `${width} × ${height}` : typeName(asset)},{' '}
        {formatBytes(byteSize)}
      </span>
    </>
  )
}

const SKELETON_TILES = 6

/** Holds the place of a grid while it is loaded. */
export function AssetGridSkeleton () {
  return (
    <div role='status'>
      <span class='visually-hidden'>The assets are being loaded.</span>
      <ul class='asset-grid' aria-hidden='true'>
        {Array.from({ length: SKELETON_TILES }, (_, index) => (
          <li class='asset-grid__item' key={index}>
            <span class='asset-grid__tile'>
              <span class='thumbnail' />
              <span class='asset-grid__name'>&nbsp;</span>
              <span class='asset-grid__facts'>&nbsp;</span>
            </span>
          </li>
        ))}
      </ul>
    </div>
  )
}
