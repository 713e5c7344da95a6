import { Screen } from '../components/screen.tsx'
import { AccountScreen } from '../screens/account/account-screen.tsx'
import { AssetDetails } from '../screens/assets/asset-details.tsx'
import { AssetsList } from '../screens/assets/assets-list.tsx'
import { PageScreen } from '../screens/page/page-screen.tsx'
import { PagesScreen } from '../screens/pages/pages-screen.tsx'
import { TrashScreen } from '../screens/pages/trash-screen.tsx'
import { href, type Path } from '../core/router.ts'

/** Chooses the screen of a path. */
export function ScreenOf ({ path }: { readonly path: Path }) {
  const [area = 'pages', id, ...rest] = path
  if (area === 'pages' && id === undefined) return <PagesScreen key={path} />
  if (area === 'pages' && id !== undefined) return <PageScreen id={id} tab={rest[0] ?? 'edit'} key={id} />
  if (area === 'assets') {
    return id === undefined ? <AssetsList key={path} /> : <AssetDetails id={id} key={id} />
  }
  if (area === 'trash') return <TrashScreen key={path} />
  if (area === 'account') return <AccountScreen section={id ?? 'password'} item={rest[0]} />
  return (
    <Screen title='Not found'>
      <p>
        There is no such screen. Go to <a href={href('pages')}>your pages</a>.
      </p>
    </Screen>
  )
}
