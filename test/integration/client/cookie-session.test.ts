import t, { type Test } from 'tap'
import { createLandfallClient, memoryTokens, type LandfallClient,
  type SignInOptions } from '../../../packages/client/src/index.ts'
import { testSettings } from '../../helpers/app.ts'
import { countedEnds, credentials, failure, startApp, type Sent } from '../../helpers/api-client.ts'
import { createProxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// The option `cookieSession`: the refresh token is in a cookie, which the tabs of a browser share.

const base = await testSettings(t)
const settings = { ...base, REFRESHES_PER_ADDRESS: '10000', SIGN_UPS_PER_ADDRESS: '10000' }
const { app, url } = await startApp(t, settings)

/** A browser with one cookie, whose pages are of the origin of the service. */
class Browser {
  cookie = ''
  readonly sent: Sent[] = []
  readonly bodies: string[] = []
  #refusals = 0

  /** Makes the service refuse the access tokens of the next `count` requests, as when they have expired. */
  expire (count = 1): void {
    this.#refusals = count
  }

  /** Opens a tab. `before` may delay a request. */
  tab (options: Partial<SignInOptions> = {}, before: (path: string) => unknown = () => {}): LandfallClient {
    const baseUrl = options.baseUrl ?? url
    const fetch = async (target: string, init: RequestInit): Promise<Response> => {
      const { pathname: path } = new URL(target)
      const isRoute = path === '/auth/browser_session'
      const headers = new Headers(init.headers)
      headers.set('origin', new URL(baseUrl).origin)
      if (isRoute && this.cookie !== '') headers.set('cookie', this.cookie)
      if (!isRoute && headers.has('authorization') && this.#refusals-- > 0) {
        headers.set('authorization', 'Bearer expired')
      }
      await before(path)
      const response = await globalThis.fetch(target, { ...init, headers })
      const [pair = '', maxAge] = response.headers.get('set-cookie')?.split('; ') ?? []
      if (maxAge !== undefined) this.cookie = maxAge === 'Max-Age=0' ? '' : pair
      const method = init.method ?? 'GET'
      this.sent.push({ method, path, headers, status: response.status })
      if (typeof init.body === 'string') this.bodies.push(init.body)
      return response
    }
    return createLandfallClient({
      cookieSession: true,
      onSessionEnded: () => t.fail('the session has not ended'),
      fetch,
      ...options,
      baseUrl
    })
  }

  /** The requests to the route of the cookie, such as `POST 200`. */
  get renewals (): string[] {
    return this.sent.filter(({ path }) => path === '/auth/browser_session')
      .map(({ method, status }) => `${method} ${status}`)
  }
}

/** Sets the Web Locks of all tabs. Pages without TLS have none. */
const useLocks = (t: Test, locks?: object) =>
  t.intercept(globalThis as { navigator?: unknown }, 'navigator', {
    value: { userAgent: 'a browser', ...locks && { locks } }
  })

/** Returns Web Locks, which Node has from version 24. */
function createLocks () {
  const queues = new Map<string, Promise<unknown>>()
  return {
    async request (name: string, work: () => Promise<unknown>) {
      const result = (queues.get(name) ?? Promise.resolve()).then(work)
      queues.set(name, result.catch(() => {}))
      return await result
    }
  }
}

const sessionsOf = async (userId: number): Promise<number> =>
  await app.database.session.count({ where: { userId, revokedAt: null } })

t.test('a user signs up, another tab resumes the session, and a sign-out ends it for both', async (t) => {
  const browser = new Browser()
  const { ends, onSessionEnded } = countedEnds()
  const one = browser.tab({ onSessionEnded })
  t.equal(await one.auth.resume(), undefined, 'there is no session yet')
  const user = await one.auth.signUp(credentials())
  t.same(await one.auth.me(), user)
  t.match(browser.cookie, /^landfall_session=[\w-]{43}$/)
  const two = browser.tab({ onSessionEnded })
  t.match(await failure(two.auth.me()), { status: 401 }, 'before it resumes')
  t.same(await two.auth.resume(), user)
  t.same(await two.auth.me(), user)
  await two.landingPages.create({ title: 'Hello' })

  await one.auth.signOut()
  t.equal(browser.cookie, '')
  t.equal(ends(), 0, 'a sign-out is no end')
  t.equal(await sessionsOf(user.id), 0)
  t.match(await failure(one.auth.me()), { status: 401 })
  t.match(await failure(two.auth.me()), { status: 401 })
  t.equal(ends(), 1, 'the other tab is told')
  t.equal(await two.auth.resume(), undefined)
  await one.auth.signOut()
  t.equal(ends(), 1)
})

t.test('the refresh token of a sign-in is exchanged at once, and no later request has it', async (t) => {
  const browser = new Browser()
  const account = credentials()
  const { auth } = browser.tab()
  await auth.signUp(account)
  t.match(browser.sent.map(({ path }) => path), ['/auth/sign_up', '/auth/browser_session'])
  const { refresh_token: token } = JSON.parse(browser.bodies[1] ?? '')
  browser.bodies.length = 0
  browser.expire()
  await auth.me()
  await auth.signOut()
  await auth.signIn(account)
  t.notMatch(browser.bodies.join(), token)
  t.notMatch(browser.sent.map(({ path }) => path).join(), /auth\/(refresh|sign_out)/)
})

t.test('an expired access token is renewed with the cookie, once for all calls', async (t) => {
  const browser = new Browser()
  const client = browser.tab()
  const user = await client.auth.signUp(credentials())
  const { cookie } = browser
  browser.expire(20)
  const users = await Promise.all(Array.from({ length: 20 }, async () => await client.auth.me()))
  t.ok(users.every(({ id }) => id === user.id))
  t.same(browser.renewals, ['POST 200', 'POST 200'], 'the sign-in and one renewal')
  t.not(browser.cookie, cookie)
  const renewal = browser.sent.findLast(({ path }) => path === '/auth/browser_session')
  t.equal(renewal?.headers.get('authorization'), null)
})

t.test('without Web Locks, a tab that is refused tries the cookie of the other tab', async (t) => {
  useLocks(t)
  const browser = new Browser()
  let posts = 0
  const meet = async (path: string) => {
    if (path !== '/auth/browser_session') return
    posts++
    await until(() => posts >= 2, 'both tabs send the same cookie')
  }
  const opener = browser.tab()
  const user = await opener.auth.signUp(credentials())
  const tabs = [browser.tab({}, meet), browser.tab({}, meet)]
  t.same(await Promise.all(tabs.map(async ({ auth }) => await auth.resume())), [user, user])
  t.same(browser.renewals.slice(1).sort(), ['POST 200', 'POST 200', 'POST 401'])

  posts = 0
  browser.expire(2)
  t.same(await Promise.all(tabs.map(async ({ auth }) => await auth.me())), [user, user])
  t.equal(browser.renewals.filter((one) => one === 'POST 401').length, 2)
  await opener.auth.signOut()
  t.equal(browser.cookie, '')
})

t.test('onSessionEnded is called once when the session was ended elsewhere', async (t) => {
  for (const locks of [createLocks(), undefined]) {
    useLocks(t, locks)
    const browser = new Browser()
    const { ends, onSessionEnded } = countedEnds()
    const client = browser.tab({ onSessionEnded })
    const account = credentials()
    await client.auth.signUp(account)
    const elsewhere = createLandfallClient({ baseUrl: url })
    await elsewhere.auth.signIn(account)
    await elsewhere.auth.endOtherSessions()
    const results = await Promise.allSettled([1, 2, 3].map(async () => await client.auth.me()))
    for (const result of results) t.match(result, { status: 'rejected', reason: { status: 401 } })
    t.match(await failure(client.auth.me()), { status: 401 })
    t.equal(ends(), 1, locks === undefined ? 'without Web Locks' : 'with Web Locks')
    t.equal(browser.cookie, '')
    t.ok(await client.auth.signIn(account))
    t.ok(await client.auth.me())
  }
})

t.test('a sign-in to another account in another tab ends the session of this one', async (t) => {
  const browser = new Browser()
  const { ends, onSessionEnded } = countedEnds()
  const one = browser.tab({ onSessionEnded })
  await one.auth.signUp(credentials())
  const two = browser.tab()
  const other = await two.auth.signUp(credentials())
  browser.expire()
  t.match(await failure(one.landingPages.create({ title: 'in which account?' })), { status: 401 })
  t.equal(ends(), 1)
  t.match(await failure(one.auth.me()), { status: 401 }, 'the access token is dropped')
  t.same(await two.auth.me(), other)
  t.same((await two.landingPages.listPage()).items, [], 'nothing was created')
  t.same(await one.auth.resume(), other, 'a page that is loaded again has the new account')
})

t.test('a service that cannot be reached ends no session', async (t) => {
  const proxy = await createProxy(t, url)
  const browser = new Browser()
  const { auth } = browser.tab({ baseUrl: proxy.url })
  const user = await auth.signUp(credentials())
  await proxy.refuse()
  const other = browser.tab({ baseUrl: proxy.url })
  await t.rejects(other.auth.resume(), TypeError)
  await t.rejects(auth.signOut(), TypeError)
  await proxy.restore()
  t.same(await other.auth.resume(), user)
  t.same(await auth.me(), user)

  const database = await createProxy(t, base.DATABASE_URL ?? '')
  const { url: replica } = await startApp(t, { ...settings, DATABASE_URL: database.url })
  await database.refuse()
  t.match(await failure(browser.tab({ baseUrl: replica }).auth.resume()), { status: 503 })
  await database.restore()
  t.same(await browser.tab({ baseUrl: replica }).auth.resume(), user)
})

t.test('a resume can be aborted', async (t) => {
  const controller = new AbortController()
  const { auth } = new Browser().tab({}, () => controller.abort(new Error('enough')))
  t.match(await failure(auth.resume({ signal: controller.signal })), { message: 'enough' })
})

t.test('resume works with stored tokens, too', async (t) => {
  const tokens = memoryTokens()
  const user = await createLandfallClient({ baseUrl: url, tokens }).auth.signUp(credentials())
  t.same(await createLandfallClient({ baseUrl: url, tokens }).auth.resume(), user)
  t.equal(await createLandfallClient({ baseUrl: url }).auth.resume(), undefined)
})

t.test('cookieSession and tokens exclude each other', async (t) => {
  t.throws(
    () => createLandfallClient({ baseUrl: url, cookieSession: true, tokens: memoryTokens() }),
    new TypeError("tokens can't be used with cookieSession, which keeps them itself")
  )
})
