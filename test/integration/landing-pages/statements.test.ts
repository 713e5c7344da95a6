import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { buildTestApp, createPage, PASSWORD, signUp, type Account } from '../../helpers/app.ts'
import { countStatements } from '../../helpers/statements.ts'

// The number of statements per request, counted in PostgreSQL's own log.

const SESSION_CHECK = /^execute landfall_\S+: SELECT .* FROM sessions /

/** Sends a request of an account and checks the status of the response. */
async function ask (
  t: Test,
  app: FastifyInstance,
  account: Account,
  status: number,
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  url: string,
  payload?: object,
  headers: object = {}
) {
  const response = await app.inject({
    method,
    url,
    headers: { ...account.headers, ...headers },
    ...payload && { payload }
  })
  t.equal(response.statusCode, status, `${method} ${url}: ${response.body.slice(0, 200)}`)
  return response
}

t.test('a management request runs the session check and one statement', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, { settings })
  const account = await signUp(app)
  const page = await createPage(app, account)
  const other = await createPage(app, account)
  const of = (id: string) => `/manage/landing_pages/${id}`

  const cases: [string, RegExp | undefined, () => Promise<unknown>][] = [
    ['me', undefined, async () => await ask(t, app, account, 200, 'GET', '/auth/me')],
    [
      'create',
      /: WITH created AS \( INSERT INTO landing_pages /,
      async () => await ask(t, app, account, 201, 'POST', '/landing_pages', { current_data: {} })
    ],
    [
      'find',
      /: SELECT .* FROM "public"."landing_pages" /,
      async () => await ask(t, app, account, 200, 'GET', of(page.id))
    ],
    [
      'replace with If-Match',
      / UPDATE landing_pages pages SET /,
      async () =>
        await ask(t, app, account, 200, 'PATCH', of(page.id), { current_data: [1] }, {
          'if-match': page.etag
        })
    ],
    [
      'replace',
      / UPDATE landing_pages pages SET /,
      async () => await ask(t, app, account, 200, 'PATCH', of(page.id), { current_data: [2] })
    ],
    [
      'delete',
      / UPDATE landing_pages pages SET version /,
      async () => await ask(t, app, account, 204, 'DELETE', of(other.id))
    ],
    [
      'sign-out',
      /: WITH .* UPDATE sessions /,
      async () =>
        await ask(t, app, account, 204, 'DELETE', '/auth/sign_out', { refresh_token: account.refresh_token })
    ]
  ]
  for (const [name, own, action] of cases) {
    const statements = await during(action)
    t.equal(statements.length, own === undefined ? 1 : 2, `${name}: ${statements.join('; ')}`)
    t.match(statements[0], SESSION_CHECK, name)
    if (own === undefined) continue
    t.match(statements[1], own, name)
  }
})

t.test('a refresh runs one statement, and a malformed token or id runs none', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, { settings })
  const account = await signUp(app)
  const refresh = await during(async () =>
    await ask(t, app, account, 200, 'POST', '/auth/refresh', { refresh_token: account.refresh_token })
  )
  t.equal(refresh.length, 1)
  t.match(refresh[0], /^execute landfall_\S+: WITH spent AS /)
  t.same(
    await during(async () =>
      await app.inject({ url: '/auth/me', headers: { authorization: 'Bearer x.y.z' } })
    ),
    []
  )
  t.same(await during(async () => await app.inject({ url: '/landing_pages/no-public-id' })), [])
})

t.test('a sign-up or sign-in runs one SELECT and one statement that writes everything', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, { settings })
  const account: Account[] = []
  const signedUp = await during(async () => account.push(await signUp(app)))
  const signedIn = await during(async () => {
    const response = await app.inject({
      method: 'POST',
      url: '/auth/sign_in',
      payload: { user: { email: account[0]?.user.email, password: PASSWORD } }
    })
    t.equal(response.statusCode, 200)
  })
  for (const [name, statements] of Object.entries({ signedUp, signedIn })) {
    t.equal(statements.length, 2, `${name}: ${statements.join('; ')}`)
    t.match(statements[0], /^execute landfall_\S+: SELECT .* FROM users /)
    t.match(statements[1], /^execute landfall_\S+: WITH account AS /)
  }
})
