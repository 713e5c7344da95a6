import { useLoad } from './load.ts'
import { landfall } from './service.ts'
import { useSettings } from './settings.ts'

/** A page, by what the address of a website can name. */
export interface SitePage {
  readonly id: string
  readonly publicId: string
}

/** Returns the address with its placeholders; undefined without one, or before it is known. */
export function useSiteAddress (): string | undefined {
  const { preview_url: common } = useSettings()
  const { data } = useLoad(async (signal) => await landfall.auth.getSettings({ signal }), [])
  return data === undefined ? undefined : data.preview_url ?? common ?? undefined
}

/** Returns where the website shows a page. @param token of a preview link; empty for what visitors see */
export const fillAddress = (address: string, { id, publicId }: SitePage, token: string): string =>
  address.replaceAll('{public_id}', publicId).replaceAll('{id}', id).replaceAll('{token}', token)

/** Returns where the website shows a page; undefined without an address, or before it is known. */
export function useSiteUrl (page: SitePage): string | undefined {
  const address = useSiteAddress()
  return address === undefined ? undefined : fillAddress(address, page, '')
}
