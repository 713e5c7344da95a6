import { useLoad } from './load.ts'
import { landfall } from './service.ts'
import { useSettings } from './settings.ts'

/** A page, by what the address of a website can name. */
interface SitePage {
  readonly id: string
  readonly publicId: string
}

/** Returns where the website shows a page; undefined without an address, or before it is known. */
export function useSiteUrl ({ id, publicId }: SitePage): string | undefined {
  const { preview_url: common } = useSettings()
  const { data } = useLoad(async (signal) => await landfall.auth.getSettings({ signal }), [])
  const address = data === undefined ? undefined : data.preview_url ?? common
  return address?.replaceAll('{public_id}', publicId).replaceAll('{id}', id).replaceAll('{token}', '')
}
