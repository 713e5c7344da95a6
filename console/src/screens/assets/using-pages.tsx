import type { AssetWithUses } from '@landfall/client'
import { href } from '../../core/router.ts'

/** The most that the service lists. */
const MAX_LISTED = 100

/** The pages that use an asset, with links to them. */
export function UsingPages ({ pages }: { readonly pages: AssetWithUses['used_by'] }) {
  if (pages.length === 0) return <p>No page uses this asset.</p>
  return (
    <>
      <ul class='using-pages'>
        {pages.map(({ id, public_id: publicId }) => (
          <li key={id}>
            <a href={href('pages', id)}>
              <code>{publicId}</code>
            </a>
          </li>
        ))}
      </ul>
      {pages.length === MAX_LISTED && <p class='quiet'>There may be more. These are the newest.</p>}
    </>
  )
}
