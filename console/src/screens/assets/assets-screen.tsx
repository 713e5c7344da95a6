import { AssetDetails } from './asset-details.tsx'
import { AssetsList } from './assets-list.tsx'

/** The files of the account, or one of them. */
export function AssetsScreen ({ id }: { readonly id: string | undefined }) {
  return id === undefined ? <AssetsList /> : <AssetDetails id={id} key={id} />
}
