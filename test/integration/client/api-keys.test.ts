import t from 'tap'
import { createLandfallClient, exactJson, InsufficientScopeError, memoryTokens, type LandfallClient,
  type Scope } from '../../../packages/client/src/index.ts'
import { PASSWORD } from '../../helpers/app.ts'
import { failure, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const { url } = await startApp(t)
const owner = await signedUp(url)

async function createKey (scopes: Scope[], client: LandfallClient = owner) {
  return await client.apiKeys.create({ name: 'Nightly build', scopes, current_password: PASSWORD })
}

t.test('a client with a key manages pages and assets, and is the author of versions', async (t) => {
  const { key: apiKey } = await createKey(['pages:read', 'pages:write', 'assets:read', 'assets:write'])
  const { fetch, sent } = recordingFetch()
  const program = createLandfallClient({ baseUrl: url, apiKey, fetch })
  const page = await program.landingPages.create({ price: 1 })
  await program.landingPages.patchDocument(page.id, exactJson('{"price": 2.50}'), { type: 'merge-patch' })
  const [version] = (await program.landingPages.revisionsPage(page.id)).items
  t.match(version?.author, { type: 'api_key', name: 'Nightly build' })
  t.same((await program.landingPages.read(page.public_id)).text, '{"price":2.50}')
  t.equal(sent.at(-1)?.headers.get('authorization'), null, 'a public read carries no key')
  const asset = await program.assets.upload(new File(['hello'], 'note.txt'))
  await program.assets.delete(asset.id)
  await program.landingPages.delete(page.id)
})

t.test('a missing scope is an InsufficientScopeError that names it', async (t) => {
  const page = await owner.landingPages.create({ kept: true })
  const { key: apiKey } = await createKey(['pages:read'])
  const program = createLandfallClient({ baseUrl: url, apiKey })
  const calls: [scope: string, call: () => Promise<unknown>][] = [
    ['pages:write', async () => await program.landingPages.update(page.id, {})],
    ['assets:read', async () => await program.assets.listPage()],
    ['assets:write', async () => await program.assets.upload(new Blob(['x']))]
  ]
  for (const [scope, call] of calls) {
    const error = await failure(call())
    t.ok(error instanceof InsufficientScopeError)
    t.match(error, { status: 403, scope, errors: [`API key lacks the scope ${scope}`] })
  }
  t.equal((await program.landingPages.getDocument(page.id)).text, '{"kept":true}')
})

t.test('a key that is refused is not renewed', async (t) => {
  const { id, key: apiKey } = await createKey(['pages:read'])
  await owner.apiKeys.delete(id)
  const { fetch, sent } = recordingFetch()
  const program = createLandfallClient({ baseUrl: url, apiKey, fetch })
  t.match(await failure(program.landingPages.listPage()), { status: 401 })
  t.match((await program.api.GET('/assets')).response.status, 401)
  t.same(sent.map(({ path }) => path), ['/manage/landing_pages', '/assets'])
})

t.test('a client with a key rejects what needs a session, before it sends a request', async (t) => {
  const { key: apiKey } = await createKey(['pages:read'])
  const { fetch, sent } = recordingFetch()
  const { api, apiKeys, auth } = createLandfallClient({ baseUrl: url, apiKey, fetch })
  const account = { email: 'you@example.com', password: PASSWORD }
  const calls: (() => Promise<unknown>)[] = [
    async () => await auth.signUp(account),
    async () => await auth.signIn(account),
    async () => await auth.me(),
    async () => await auth.signOut(),
    async () => await auth.sessions().next(),
    async () => await auth.endOtherSessions(),
    async () => await auth.changePassword({ current_password: PASSWORD, password: 'staple battery' }),
    async () => await apiKeys.list().next(),
    async () => await apiKeys.create({ name: 'More', scopes: ['pages:write'], current_password: PASSWORD }),
    async () => await api.GET('/auth/me')
  ]
  const message = "A client with an API key can't use the account: create one without apiKey, and sign in"
  for (const call of calls) t.match(await failure(call()), { message })
  t.same(sent, [])
})

t.test('apiKey must be an API key, and excludes tokens', async (t) => {
  for (const apiKey of ['', 'lf_', 'lf_abc', 'eyJhbGciOiJIUzI1NiJ9.e30.x', 'lf_abc\n', undefined, null]) {
    t.throws(
      () => createLandfallClient({ baseUrl: url, apiKey: apiKey as string }),
      new TypeError('apiKey must be an API key: lf_ and 46 letters and digits')
    )
  }
  const { key: apiKey } = await createKey(['pages:read'])
  t.throws(
    // @ts-expect-error the types exclude it, too
    () => createLandfallClient({ baseUrl: url, apiKey, tokens: memoryTokens() }),
    new TypeError("tokens can't be used with apiKey, which needs no session")
  )
})
