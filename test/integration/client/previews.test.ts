import t from 'tap'
import { createLandfallClient, exactJson } from '../../../packages/client/src/index.ts'
import { failure, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const { url } = await startApp(t)

t.test('a preview is read with the token of a link, by a client with another account or none', async (t) => {
  const { landingPages } = await signedUp(url)
  const { id, public_id: publicId } = await landingPages.create({ n: 1 }, { published: false })
  const { token, ...link } = await landingPages.createPreviewLink(id, { name: 'For Ada', expiresIn: 300 })
  t.equal(link.name, 'For Ada')
  t.equal((await landingPages.createPreviewLink(id)).name, null)
  const other = (await signedUp(url)).landingPages
  const { fetch, sent } = recordingFetch()
  const reader = createLandfallClient({ baseUrl: url, fetch }).landingPages

  const first = await reader.readPreview<{ n: number }>(publicId, token)
  t.match(first, { document: { n: 1 }, text: '{"n":1}', isDraft: false })
  const again = await reader.readPreview(publicId, token, { known: first })
  t.same(again, first)
  await landingPages.putDraft(id, exactJson('{"n": 2.0}'))
  t.match(await reader.readPreview(publicId, token, { known: first }), { text: '{"n": 2.0}', isDraft: true })
  t.same(sent.map(({ status }) => status), [200, 304, 200])
  t.match(await other.readPreview(publicId, token), { text: '{"n": 2.0}' })

  for await (const { id: linkId } of landingPages.previewLinks(id, { limit: 1 })) {
    await landingPages.deletePreviewLink(id, linkId)
  }
  t.same((await landingPages.previewLinksPage(id)).items, [])
  t.match(await failure(other.readPreview(publicId, token)), {
    name: 'LandfallError',
    status: 401,
    errors: ['Missing, invalid or expired preview token']
  })
  t.ok(await other.summariesPage(), 'the refusal does not end the session')
})
