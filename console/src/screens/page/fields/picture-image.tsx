import type { Asset } from '@landfall/client'
import { Thumbnail } from '../../assets/thumbnail.tsx'

interface PictureImageProps {
  readonly address: string
  /** Undefined while it isn't known. */
  readonly asset: Asset | undefined
}

/** A small picture. Its name stands beside it. */
export function PictureImage ({ address, asset }: PictureImageProps) {
  return asset === undefined ? <img class='thumbnail' alt='' loading='lazy' src={address} />
    : <Thumbnail asset={asset} sizes='10rem' />
}
