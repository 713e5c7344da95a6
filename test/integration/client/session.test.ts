import t from 'tap'
import { createLandfallClient, memoryTokens, webStorageTokens,
  type TokenPair } from '../../../packages/client/src/index.ts'
import { createProxy, query } from '../../helpers/servers.ts'
import { testSettings } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'
import { countedEnds, credentials, expiredTokens, failure, recordingFetch, signedUp,
  startApp } from '../../helpers/api-client.ts'

const settings = await testSettings(t)
const { url } = await startApp(t, settings)

t.test('a user can sign up, read the account, sign out and sign in again', async (t) => {
  const account = credentials()
  const tokens = memoryTokens()
  const onSessionEnded = () => t.fail('the session has not ended by itself')
  const { auth } = createLandfallClient({ baseUrl: `${url}/`, tokens, onSessionEnded })
  const user = await auth.signUp(account)
  t.match(user, { id: Number, email: account.email })
  t.same(await auth.me(), user)
  await auth.signOut()
  t.equal(await tokens.load(), undefined)
  const missing = { name: 'LandfallError', status: 401, errors: ['Missing or invalid access token'] }
  t.match(await failure(auth.me()), missing)
  const wrong = { status: 401, errors: ['Invalid email or password'], requestId: /./ }
  t.match(await failure(auth.signIn({ ...account, password: 'something else' })), wrong)
  t.same(await auth.signIn(account), user)
  t.same(await auth.me(), user)
  await auth.signOut()
  await auth.signOut()
})

t.test('50 calls with an expired access token share one refresh, and all succeed', async (t) => {
  const { fetch, count, sent } = recordingFetch()
  const client = createLandfallClient({ baseUrl: url, fetch, tokens: await expiredTokens(url) })
  const page = client.landingPages.create({ once: true })
  const users = await Promise.all(Array.from({ length: 50 }, async () => await client.auth.me()))
  t.equal(new Set(users.map(({ id }) => id)).size, 1)
  t.equal(count('/auth/refresh'), 1)
  const { id: written } = await page
  t.same((await client.landingPages.listPage()).items.map(({ id }) => id), [written], 'a write, once')
  const refresh = sent.find(({ path }) => path === '/auth/refresh')
  t.equal(refresh?.headers.get('authorization'), null, 'the refresh does not send the expired token')
})

t.test('onSessionEnded is called once, and the tokens are deleted', async (t) => {
  const tokens = await expiredTokens(url)
  const { ends, onSessionEnded } = countedEnds()
  const client = createLandfallClient({ baseUrl: url, tokens, onSessionEnded })
  const other = createLandfallClient({ baseUrl: url, tokens: memoryTokens(await tokens.load()) })
  await other.auth.signOut()
  const results = await Promise.allSettled(Array.from({ length: 5 }, async () => await client.auth.me()))
  for (const result of results) t.match(result, { status: 'rejected', reason: { status: 401 } })
  t.match(await failure(client.auth.me()), { status: 401 })
  t.equal(ends(), 1)
  t.equal(await tokens.load(), undefined)
  await client.auth.signUp(credentials())
  t.ok(await client.auth.me())
})

t.test('a network error during a refresh keeps the session', async (t) => {
  const proxy = await createProxy(t, url)
  const { fetch } = recordingFetch(async (path) => {
    if (path === '/auth/refresh') await proxy.refuse()
  })
  const tokens = await expiredTokens(url)
  const onSessionEnded = () => t.fail('the session has not ended')
  const client = createLandfallClient({ baseUrl: proxy.url, fetch, tokens, onSessionEnded })
  await t.rejects(client.auth.me(), TypeError)
  await proxy.restore()
  t.ok(await tokens.load())
  const later = createLandfallClient({ baseUrl: proxy.url, tokens })
  t.ok(await later.auth.me())
})

t.test('a 503 during a refresh keeps the session', async (t) => {
  const database = await createProxy(t, settings.DATABASE_URL ?? '')
  const { url } = await startApp(t, { ...settings, DATABASE_URL: database.url })
  const tokens = await expiredTokens(url)
  const onSessionEnded = () => t.fail('the session has not ended')
  const client = createLandfallClient({ baseUrl: url, tokens, onSessionEnded })
  await database.refuse()
  t.match(await failure(client.auth.me()), { status: 503, retryAfterSeconds: Number })
  t.match(await failure(client.api.GET('/auth/me')), { name: 'LandfallError', status: 503 })
  await database.restore()
  t.ok(await client.auth.me())
})

t.test('clients with the same storage, such as tabs, share a session', async (t) => {
  const items = new Map<string, string>()
  const storage = {
    getItem: (key: string) => items.get(key) ?? null,
    setItem: (key: string, value: string) => items.set(key, value),
    removeItem: (key: string) => items.delete(key)
  }
  const { ends, onSessionEnded } = countedEnds()
  const tab = () => createLandfallClient({ baseUrl: url, tokens: webStorageTokens(storage), onSessionEnded })
  const [one, two] = [tab(), tab()]
  const user = await one.auth.signUp(credentials())
  t.same(await two.auth.me(), user)

  await t.test('when both renew at once, one refreshes and the other uses its tokens', async (t) => {
    for (let round = 0; round < 5; round++) {
      const pair = JSON.parse(storage.getItem('landfall.tokens') ?? '') as TokenPair
      webStorageTokens(storage).save({ ...pair, access_token: `expired ${round}` })
      t.same(await Promise.all([one.auth.me(), two.auth.me()]), [user, user])
    }
    t.equal(ends(), 0)
  })

  await t.test('when one signs out, onSessionEnded is called for the other', async (t) => {
    const held = two.auth.me()
    await one.auth.signOut()
    await held.catch(() => {})
    for (const client of [two, one, two]) t.match(await failure(client.auth.me()), { status: 401 })
    t.equal(ends(), 1)
    t.equal(items.size, 0)
  })

  await t.test('when one signs out while the other is idle, onSessionEnded is called at its next call', async (t) => {
    await two.auth.signUp(credentials())
    await one.auth.signOut()
    t.equal(ends(), 1)
    for (const client of [two, one, two]) t.match(await failure(client.auth.me()), { status: 401 })
    t.equal(ends(), 2)
  })

  await t.test('when both sign out, onSessionEnded is not called', async (t) => {
    await two.auth.signUp(credentials())
    await one.auth.signOut()
    await two.auth.signOut()
    for (const client of [two, one]) t.match(await failure(client.auth.me()), { status: 401 })
    t.equal(ends(), 2)
  })
})

t.test('a sign-out never calls onSessionEnded, even with a slow storage', async (t) => {
  let kept: TokenPair | undefined
  let loads = 0
  let isCleared = false
  const calls: Promise<unknown>[] = []
  /** Starts a call that loads its token now and sends its request after the sign-out. */
  const call = async () => {
    const before = loads
    calls.push(failure(client.auth.me()))
    await until(() => loads > before, 'the call asks for its token')
  }
  const tokens = {
    load () {
      loads++
      return kept
    },
    save (pair: TokenPair) {
      kept = pair
    },
    async clear () {
      await call()
      kept = undefined
      await call()
      isCleared = true
    }
  }
  const { fetch } = recordingFetch(async (path) => {
    if (path === '/auth/me') await until(() => isCleared, 'the storage is cleared')
  })
  const onSessionEnded = () => t.fail('the session has not ended by itself')
  const client = await signedUp(url, { fetch, tokens, onSessionEnded })
  await client.auth.signOut()
  for (const error of [...await Promise.all(calls), await failure(client.auth.me())]) {
    t.match(error, { status: 401 })
  }
})

t.test('processes with the same storage share a session without common locks', async (t) => {
  const locks = { request: async (_name: string, work: () => Promise<unknown>) => await work() }
  t.intercept(globalThis as { navigator?: unknown }, 'navigator', { value: { userAgent: 'Node.js', locks } })
  const tokens = await expiredTokens(url)
  let refreshes = 0
  const { fetch, sent } = recordingFetch(async (path) => {
    if (path !== '/auth/refresh') return
    refreshes++
    await until(() => refreshes === 2, 'both send the refresh token')
  })
  const onSessionEnded = () => t.fail('the session has not ended')
  const inProcess = () => createLandfallClient({ baseUrl: url, fetch, tokens, onSessionEnded })
  const [one, two] = [inProcess(), inProcess()]
  const [user, same] = await Promise.all([one.auth.me(), two.auth.me()])
  t.same(user, same)
  t.same(sent.filter(({ path }) => path === '/auth/refresh').map(({ status }) => status).sort(), [200, 401])
  t.same(await one.auth.me(), user)
})

t.test('private tokens need no Web Locks, which sandboxed frames do not have', async (t) => {
  const locks = {
    request: async () => {
      throw new DOMException('The request was denied', 'SecurityError')
    }
  }
  t.intercept(globalThis as { navigator?: unknown }, 'navigator', { value: { userAgent: 'Node.js', locks } })
  const client = await signedUp(url)
  t.ok(await client.auth.me())
  await client.auth.signOut()
})

t.test('a sign-out with an expired access token ends the session', async (t) => {
  const tokens = await expiredTokens(url)
  const client = createLandfallClient({ baseUrl: url, tokens })
  const { id } = await client.auth.me()
  const good = await tokens.load() ?? { access_token: '', refresh_token: '' }
  await tokens.save({ ...good, access_token: 'expired' })
  await client.auth.signOut()
  t.equal(await tokens.load(), undefined)
  const left = `select count(*) from sessions where user_id = ${id} and revoked_at is null`
  t.same(await query(settings.DATABASE_URL ?? '', left), [{ count: '0' }])
})

t.test('a sign-out without a response times out, can be aborted, and keeps the tokens', async (t) => {
  const proxy = await createProxy(t, url)
  let isSent = false
  const { fetch } = recordingFetch((path) => {
    if (path === '/auth/sign_out') isSent = true
  })
  const tokens = memoryTokens()
  const client = await signedUp(proxy.url, { fetch, tokens })
  const timeouts: AbortController[] = []
  const timeout = () => {
    const controller = new AbortController()
    timeouts.push(controller)
    return controller.signal
  }
  t.intercept(AbortSignal, 'timeout', { value: timeout })
  proxy.blackhole()
  const hung = failure(client.auth.signOut())
  await until(() => isSent, 'the sign-out is sent')

  const controller = new AbortController()
  const waiting = failure(client.auth.signOut({ signal: controller.signal }))
  controller.abort(new Error('enough'))
  t.match(await waiting, { message: 'enough' })

  t.equal(timeouts.length, 1, 'the sign-out has a timeout')
  timeouts[0]?.abort(new DOMException('too late', 'TimeoutError'))
  t.match(await hung, { name: 'TimeoutError' })
  await proxy.refuse()
  t.ok(await failure(client.auth.signOut()))
  t.ok(await tokens.load())
  await proxy.restore()
  await client.auth.signOut()
  t.equal(await tokens.load(), undefined)
})

t.test('invalid storage entries are ignored', async (t) => {
  for (const entry of ['', 'x', 'null', '7', '{}', '{"access_token":1,"refresh_token":"x"}']) {
    const tokens = webStorageTokens({ getItem: () => entry, setItem () {}, removeItem () {} })
    t.equal(await tokens.load(), undefined, entry)
  }
})
