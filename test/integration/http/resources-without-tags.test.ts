import { randomUUID } from 'node:crypto'
import t from 'tap'
import { buildTestApp, createKey, createPage, PASSWORD, sendAs, signIn, signUp,
  testSettings } from '../../helpers/app.ts'

// Preconditions of writes of resources that have no ETag: only `*` matches (RFC 9110, 13.1.1 and 13.1.2).

const app = await buildTestApp(t, await testSettings(t))
const account = await signUp(app)
const other = await signUp(app)
const page = await createPage(app, account)

async function create (url: string, payload: object): Promise<string> {
  const response = await sendAs(app, account, 'POST', url, payload)
  return `${url}/${response.json<{ id: string }>().id}`
}
const createWebhook = async () => await create('/webhooks', { url: 'https://example.com/hook' })
const createLink = async () => await create(`/manage/landing_pages/${page.id}/preview_links`, {})

async function createSession (): Promise<string> {
  await signIn(app, account)
  const response = await sendAs(app, account, 'GET', '/auth/sessions')
  const [newest] = response.json<{ id: string }[]>()
  return `/auth/sessions/${newest?.id}`
}

type Write = [method: 'PATCH' | 'POST' | 'PUT' | 'DELETE', url: string, payload?: object]
const webhook = await createWebhook()
const writes: Write[] = [
  ['PATCH', webhook, { active: false }],
  ['POST', `${webhook}/secret`],
  ['POST', `${webhook}/test`],
  ['DELETE', webhook],
  ['DELETE', `/api_keys/${(await createKey(app, account, ['pages:read'])).id}`],
  ['DELETE', await createLink()],
  ['DELETE', await createSession()],
  ['POST', '/webhooks', { url: 'https://example.com/another' }],
  ['POST', '/api_keys', { name: 'new', scopes: ['pages:read'], current_password: PASSWORD }],
  ['POST', '/landing_pages', { landing_page: { current_data: {} } }],
  ['POST', `/manage/landing_pages/${page.id}/preview_links`, {}],
  ['PUT', '/auth/password', {
    current_password: PASSWORD,
    password: PASSWORD,
    password_confirmation: PASSWORD
  }],
  ['DELETE', '/auth/sessions'],
  ['DELETE', '/auth/me', { password: PASSWORD }]
]

t.test('a resource of nobody or another account is a 404, whatever the preconditions', async (t) => {
  for (const [method, url, payload] of writes.filter(([, url]) => /[^/]{36}/.test(url))) {
    const unknown = url.replace(/[^/]{36}(?=\/?\w*$)/, randomUUID())
    for (const path of [url, unknown, url.replace(/[^/]{36}(?=\/?\w*$)/, 'x')]) {
      const response = await sendAs(app, other, method, path, payload, { 'if-match': '"x"' })
      t.same([response.statusCode, response.json()], [404, { errors: ['Not found'] }], `${method} ${path}`)
    }
  }
})

t.test('a false precondition stops writes of resources without an ETag, and a true one does not', async (t) => {
  for (const [method, url, payload] of writes) {
    for (const [name, value] of [['if-match', '"x", ""'], ['if-none-match', '*']] as const) {
      const response = await sendAs(app, account, method, url, payload, { [name]: value })
      t.equal(response.statusCode, 412, `${method} ${url}, ${name}`)
      t.match(response.json().errors, [new RegExp(name, 'i')])
    }
    const conditions = { 'if-match': '*', 'if-none-match': '"x"' }
    const { statusCode } = await sendAs(app, account, method, url, payload, conditions)
    t.ok(statusCode < 300, `${method} ${url}: ${statusCode}`)
  }
})
