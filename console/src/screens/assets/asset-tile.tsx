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
