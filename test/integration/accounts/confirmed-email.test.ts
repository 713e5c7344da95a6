import t from 'tap'
import { buildTestApp, createKey, createPage, PASSWORD, sendAs, signUp,
  type Account } from '../../helpers/app.ts'

// No mail server is needed: the tests confirm addresses in the database.
const app = await buildTestApp(t, {
  SMTP_URL: 'smtp://127.0.0.1:1',
  MAIL_FROM: 'noreply@example.com',
  REQUIRE_CONFIRMED_EMAIL: 'true'
})
const REFUSED = {
  errors: ['Confirm your email address first: POST /auth/email_confirmations mails another link']
}

const confirm = async ({ user }: Account, at: Date | null = new Date()) =>
  await app.database.user.update({ where: { id: user.id }, data: { emailConfirmedAt: at } })
const call = async (
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  url: string,
  account: Pick<Account, 'headers'>,
  payload?: object
) => await sendAs(app, account, method, url, payload)
const newKey = { name: 'x', scopes: ['pages:read', 'pages:write'], current_password: PASSWORD }

t.test('an account that has not confirmed its address can not write pages, assets and keys', async (t) => {
  const owner = await signUp(app)
  await confirm(owner)
  const { id } = await createPage(app, owner)
  const key = await createKey(app, owner, ['pages:read', 'pages:write', 'assets:write'])
  await confirm(owner, null)
  const writes = [
    ['POST', '/landing_pages', { current_data: {} }],
    ['PATCH', `/manage/landing_pages/${id}`, { current_data: {} }],
    ['PUT', `/manage/landing_pages/${id}/document`, {}],
    ['POST', `/manage/landing_pages/${id}/revisions/1/restore`],
    ['DELETE', `/manage/landing_pages/${id}`],
    ['POST', '/assets', {}],
    ['DELETE', `/assets/${id}`],
    ['POST', '/api_keys', newKey],
    ['DELETE', `/api_keys/${key.id}`]
  ] as const
  for (const [method, url, payload] of writes) {
    for (const caller of url.startsWith('/api_keys') ? [owner] : [owner, key]) {
      const response = await call(method, url, caller, payload)
      t.equal(response.statusCode, 403, `${method} ${url}`)
      t.same(response.json(), REFUSED)
      t.equal(response.headers['www-authenticate'], undefined)
    }
  }
  for (const url of ['/manage/landing_pages', `/manage/landing_pages/${id}`, '/assets', '/api_keys']) {
    t.equal((await call('GET', url, owner)).statusCode, 200, url)
  }
  t.equal((await call('GET', '/manage/landing_pages', key)).statusCode, 200)
  await confirm(owner)
  t.equal((await call('PATCH', `/manage/landing_pages/${id}`, owner, { current_data: [] })).statusCode, 200)
  t.equal((await call('PATCH', `/manage/landing_pages/${id}`, key, { current_data: [] })).statusCode, 200)
})

t.test('an account can be changed and left before its address is confirmed', async (t) => {
  const owner = await signUp(app)
  const password = { password: 'staple battery', password_confirmation: 'staple battery' }
  const change = { current_password: PASSWORD, ...password }
  t.equal((await call('GET', '/auth/me', owner)).statusCode, 200)
  t.equal((await call('PUT', '/auth/password', owner, change)).statusCode, 204)
  t.equal((await call('DELETE', '/auth/sessions', owner)).statusCode, 204)
  const signOut = { refresh_token: owner.refresh_token }
  t.equal((await call('DELETE', '/auth/sign_out', owner, signOut)).statusCode, 204)
  const other = await signUp(app)
  t.equal((await call('DELETE', '/auth/me', other, { password: PASSWORD })).statusCode, 204)
  t.equal(await app.database.user.findUnique({ where: { id: other.user.id } }), null)
})
