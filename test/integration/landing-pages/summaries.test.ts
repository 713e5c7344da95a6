import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp, testSettings, type Account } from '../../helpers/app.ts'

// The list of an owner's pages without their documents. Unit tests of findLabel() have more documents.

const PATH = '/manage/landing_page_summaries'
const HOUR_MS = 3_600_000
const NO_READS = Array<number>(24).fill(0)

interface Summary {
  readonly id: string
  readonly label: string | null
  readonly reads: readonly number[]
}

const ask = async (app: FastifyInstance, { headers }: Pick<Account, 'headers'>, parameters = '') =>
  await app.inject({ url: `${PATH}${parameters}`, headers })

const summaries = async (app: FastifyInstance, owner: Account): Promise<Summary[]> =>
  (await ask(app, owner)).json()

t.test('a summary has the record of a page, its label and its size, but not its document', async (t) => {
  const app = await buildTestApp(t)
  const owner = await signUp(app)
  const document = ' { "price": 1e400, "title": "Caf\\u00e9 \\ud83d" , "text": "€"}'
  const { id } = await createPage(app, owner)
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${id}/document`, document)
  const { current_data: _, ...record } = (await sendAs(app, owner, 'GET', `/manage/landing_pages/${id}`))
    .json()
  const response = await ask(app, owner)
  t.match(response.headers, { 'cache-control': 'private, no-cache', link: undefined })
  t.same(response.json(), [{
    ...record,
    version: 2,
    label: 'Café \ufffd',
    byte_size: Buffer.byteLength(document),
    has_draft: false,
    publish_at: null,
    unpublish_at: null,
    reads: NO_READS
  }])
})

t.test('reads are those of each of the last 24 hours, with 304s, of all replicas', async (t) => {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, settings)
  const owner = await signUp(app)
  const [page, other] = [await createPage(app, owner), await createPage(app, owner)]
  const { now } = Date
  const startedAt = now()
  t.teardown(() => {
    Date.now = now
  })
  for (const hours of [-24, -23, -1, 0, 0, 0]) {
    Date.now = () => startedAt + hours * HOUR_MS
    const replica = await buildTestApp(t, settings)
    const url = `/landing_pages/${page.public_id}`
    await replica.inject({ url })
    await replica.inject({ url, headers: { 'if-none-match': page.etag } })
    await replica.close()
  }
  const [second, first] = await summaries(app, owner)
  t.same([first?.id, first?.reads], [page.id, [2, ...Array<number>(21).fill(0), 2, 6]])
  t.same([second?.id, second?.reads], [other.id, NO_READS])
})
