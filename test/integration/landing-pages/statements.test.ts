import t from 'tap'
import { buildTestApp, createPage, NOBODY, sendAs, signInStatus, signUp } from '../../helpers/app.ts'
import { countStatements, recordUses } from '../../helpers/statements.ts'

// The number of statements per request, counted in PostgreSQL's own log.

const SESSION_CHECK = /^execute landfall_\S+: SELECT .* FROM sessions /

t.test('a management request runs the session check and one statement', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, settings)
  const account = await signUp(app)
  const page = await createPage(app, account)
  const other = await createPage(app, account)
  await recordUses(app)
  const of = (id: string) => `/manage/landing_pages/${id}`

  const create = /: WITH created AS \( INSERT INTO landing_pages /
  const update = / UPDATE landing_pages pages SET /
  const match = { 'if-match': page.etag }
  type Case = [
    RegExp | undefined,
    number,
    'GET' | 'POST' | 'PATCH' | 'DELETE',
    string,
    object?,
    typeof match?
  ]
  const cases: Case[] = [
    [undefined, 200, 'GET', '/auth/me'],
    [create, 201, 'POST', '/landing_pages', { current_data: {} }],
    [/: SELECT .* FROM "public"."landing_pages" /, 200, 'GET', of(page.id)],
    [update, 200, 'PATCH', of(page.id), { current_data: [1] }, match],
    [update, 200, 'PATCH', of(page.id), { current_data: [2] }],
    [/ UPDATE landing_pages pages SET version /, 204, 'DELETE', of(other.id)]
  ]
  for (const [own, status, method, url, payload, headers] of cases) {
    const name = `${method} ${url}`
    const statements = await during(async () =>
      t.equal((await sendAs(app, account, method, url, payload, headers)).statusCode, status, name)
    )
    t.equal(statements.length, own === undefined ? 1 : 2, `${name}: ${statements.join('; ')}`)
    t.match(statements[0], SESSION_CHECK, name)
    if (own !== undefined) t.match(statements[1], own, name)
  }
})

t.test('a refresh runs one statement, and a malformed token or id runs none', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, settings)
  const account = await signUp(app)
  const token = { refresh_token: account.refresh_token }
  const refresh = await during(async () =>
    t.equal((await sendAs(app, NOBODY, 'POST', '/auth/refresh', token)).statusCode, 200)
  )
  t.equal(refresh.length, 1)
  t.match(refresh[0], /^execute landfall_\S+: WITH spent AS /)
  const malformed = await during(async () => {
    await app.inject({ url: '/auth/me', headers: { authorization: 'Bearer x.y.z' } })
    await app.inject('/landing_pages/no-public-id')
  })
  t.same(malformed, [])
})

t.test('a sign-in runs one SELECT and one statement that writes everything, a sign-up one more', async (t) => {
  const { settings, during } = await countStatements(t)
  const app = await buildTestApp(t, settings)
  const email = 'counted@example.com'
  const signedUp = await during(async () => await signUp(app, email))
  const signedIn = await during(async () => t.equal(await signInStatus(app, email), 200))
  for (const [[select, ...writes], count] of [[signedUp, 2], [signedIn, 1]] as const) {
    t.match(select, /: SELECT .* FROM "public"\."users" /)
    t.equal(writes.length, count, writes.join('; '))
    for (const write of writes) t.match(write, /^execute landfall_\S+: WITH account AS /)
  }
})
