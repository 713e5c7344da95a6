import t from 'tap'
import { createLandfallClient, srcset } from '../../../packages/client/src/index.ts'
import { credentials } from '../../helpers/api-client.ts'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { freePort } from '../../helpers/servers.ts'
import { phonePhoto } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'
import { Example } from './example.ts'

t.test('the page of examples/vite shows a document, its limit, and a draft while it changes', async (t) => {
  const browser = await startBrowser(t, provide('chromium'))
  const { url } = await startServiceOnPostgres(t, { RATE_LIMIT_PUBLIC: '2' })
  const example = await Example.install(t, 'vite')
  t.same(example.commands, ['npm ci\nnpm run dev\n'])
  const port = String(await freePort())
  await example.start(
    ['npm', 'run', 'dev', '--', '--port', port],
    { VITE_LANDFALL_URL: url },
    /Local: .*localhost/
  )

  const landfall = createLandfallClient({ baseUrl: url })
  await landfall.auth.signUp(credentials())
  const picture = await landfall.assets.upload(new File([Uint8Array.from(await phonePhoto())], 'photo.jpg'))
  const page = await landfall.landingPages.create({
    title: 'Summer <sale>',
    picture: { url: picture.url, srcset: srcset(picture, 'image/webp') }
  })

  const tab = await browser.newPage({ viewport: { width: 300, height: 600 } })
  tab.on('pageerror', (error) => t.fail(error.message))
  const address = `http://localhost:${port}/?page=${page.public_id}`
  await tab.goto(address)
  await tab.getByRole('heading', { name: 'Summer <sale>' }).waitFor()
  const source = await until(async () =>
    await tab.locator('img').evaluate((image: { naturalWidth: number, currentSrc: string }) =>
      image.naturalWidth > 0 && image.currentSrc
    )
  )
  t.match(source, /\/w320\.webp$/, 'the picture has the size of the window')

  await tab.reload()
  await tab.getByRole('heading', { name: 'Summer <sale>' }).waitFor()
  await tab.reload()
  await tab.getByText(/^Too many reads\. Trying again in \d+ s\.$/).waitFor()

  const { token } = await landfall.landingPages.createPreviewLink(page.id)
  await tab.goto(`${address}&again#preview=${token}`)
  await tab.getByText('Preview, without changes').waitFor()
  await landfall.landingPages.putDraft(page.id, { title: 'Winter' })
  await tab.getByRole('heading', { name: 'Winter' }).waitFor()
  t.ok(await tab.getByText('Preview of a draft').isVisible())
  await tab.goto(`${address}#preview=lfp_none`)
  await tab.reload()
  await tab.getByText('The preview link has expired.').waitFor()
})
