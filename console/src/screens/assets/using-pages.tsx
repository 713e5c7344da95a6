import type { AssetWithReferences } from '@landfall/client'
import { findLabel, nameOf } from '../../core/labels.ts'
import { useLoad } from '../../core/load.ts'
import { href } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'

/** The most that the service lists. */
const MAX_LISTED = 100
/** Of more, the label isn't shown, because each costs a request. */
const MAX_LABELS = 10

/** The pages that use an asset, with links to them. */
export function UsingPages ({ pages }: { readonly pages: AssetWithReferences['used_by'] }) {
  if (pages.length === 0) return <p>No page uses this asset.</p>
  return (
    <>
      <ul class='using-pages'>
        {pages.map((page, index) => <UsingPage page={page} hasLabel={index < MAX_LABELS} key={page.id} />)}
      </ul>
      {pages.length === MAX_LISTED && <p class='quiet'>There may be more. These are the newest.</p>}
    </>
  )
}

interface UsingPageProps {
  readonly page: AssetWithReferences['used_by'][number]
  readonly hasLabel: boolean
}

/** Shows the public id until the label is known. */
function UsingPage ({ page: { id, public_id: publicId }, hasLabel }: UsingPageProps) {
  const { data: label = null } = useLoad(async (signal) => {
    return hasLabel ? findLabel((await landfall.landingPages.getDocument(id, { signal })).text) : null
  }, [id])
  const name = nameOf(label, publicId)
  return (
    <li>
      <a href={href('pages', id)}>{name === publicId ? <code>{name}</code> : <bdi>{name}</bdi>}</a>
    </li>
  )
}
