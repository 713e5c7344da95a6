import { randomUUID } from 'node:crypto'
import t from 'tap'
import { MAIL } from '../../../scripts/generate-client.ts'
import { buildTestApp, createPage, NOBODY, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'

// Every operation of the OpenAPI document refuses what doesn't fit the schemas that the document has of it.

interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}
interface Operation {
  readonly tags: readonly [string]
  readonly parameters?: readonly { readonly name: string, readonly in: string, readonly schema: Schema }[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema, readonly example?: unknown }>>
  }
}
interface Body {
  /** The media type. */
  readonly type: string
  readonly value?: unknown
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const app = await buildTestApp(t, { ...MAIL, ...await testSettings(t), ...GENEROUS })
const { headers } = await signUp(app)
/** Some routes take requests of the service's own pages only. */
const account = { headers: { ...headers, origin: 'http://landfall.test' } }
const page = await createPage(app, account)
const webhook = (await sendAs(app, account, 'POST', '/webhooks', { url: 'https://example.com/' })).json()

const document = (await app.inject('/openapi.json')).json<Document>()
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => {
    const { parameters = [], requestBody, tags: [tag] } = operation
    const names: Readonly<Record<string, string>> = {
      id: path.startsWith('/webhooks') ? webhook.id : page.id,
      public_id: page.public_id,
      key: 'a',
      version: '1'
    }
    const urlWith = (changed: Readonly<Record<string, string>> = {}) =>
      path.replace(/\{(\w+)\}/g, (_, name: string) => ({ ...names, ...changed })[name] ?? randomUUID())
    return {
      name: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase() as 'POST',
      path,
      urlWith,
      query: parameters.filter((parameter) => parameter.in === 'query'),
      bodies: Object.entries(requestBody?.content ?? {}).filter(([type]) => type.includes('json'))
        .map(([type, { schema, example }]) => ({ type, schema, value: example })),
      isManagement: !['Public', 'Health', 'Reference'].includes(tag)
    }
  })
)
type Described = typeof operations[number]

const resolved = (schema: Schema): Schema =>
  schema.$ref === undefined ? schema
    : document.components.schemas[schema.$ref.split('/').at(-1) as string] as Schema

const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  string: [null, true, 1, [], {}, ['x']],
  integer: [null, true, 1.5, '1', [], {}],
  boolean: [null, 1, 'true', [], {}],
  object: [null, true, 1, 'x', []],
  array: [null, true, 1, 'x', {}],
  'string,null': [true, 1, [], {}],
  'array,null': [true, 1, 'x', {}],
  'object,null': [true, 1, 'x', []],
  'object,array': [null, true, 1, 'x'] // documents, and patches that may become one
}
const WRONG_NUMBERS = ['', 'x', '1.5', '1e1', '%201', '0x1', 'true', 'null', '[]']
const MANY = Array(10_000).fill(null)

const shapesOf = (schema: Schema): Schema[] => (resolved(schema).anyOf ?? [schema]).map(resolved)
const typesOf = (schema: Schema): string =>
  [...new Set(shapesOf(schema).map(({ type }) => String(type)))].join()

/** Yields values of the wrong type, and for each shape those with one property of the wrong type. */
function* misfits (schema: Schema, example: unknown): Generator<unknown> {
  yield* WRONG[typesOf(schema)]! // a type without wrong values fails
  // A property that the example doesn't have wraps it, as `landing_page` does.
  const valueOf = (name: string) => (example as Record<string, unknown>)[name] ?? example
  for (const { properties = {}, required = [] } of shapesOf(schema)) {
    const fitting = Object.fromEntries(required.map((name) => [name, valueOf(name)]))
    for (const [name, property] of Object.entries(properties)) {
      for (const wrong of misfits(property, valueOf(name))) yield { ...fitting, [name]: wrong }
    }
  }
}

/** Sends a request, by default with the body of the example. */
const ask = async ({ method, bodies }: Described, url: string, body: Body | undefined = bodies[0]) =>
  await sendAs(app, account, method, url, body && JSON.stringify(body.value), {
    ...body && { 'content-type': body.type }
  })

/** They answer 401 to all that is not a right token or password. */
const LIKE_A_WRONG_TOKEN = /^\/auth\/(sign_in|sign_out|refresh|browser_session)$/

t.test('a body with a value of the wrong type is refused, with at most three errors if it is large', async (t) => {
  let count = 0
  for (const operation of operations) {
    for (const { type, schema, value: fitting } of operation.bodies) {
      const refuse = async (value: unknown) => {
        const name = `${operation.name}: ${JSON.stringify(value).slice(0, 200)}`
        const { statusCode, body } = await ask(operation, operation.urlWith(), { type, value })
        const statuses = LIKE_A_WRONG_TOKEN.test(operation.path) ? [401, 422] : [422]
        t.ok(statuses.includes(statusCode), `${name}: ${statusCode}`)
        count++
        return JSON.parse(body).errors.length
      }
      for (const wrong of misfits(schema, fitting)) await refuse(wrong)
      if (typesOf(schema) === 'object,array') continue
      const hasUser = resolved(schema).properties?.user !== undefined
      for (const large of [MANY, ...hasUser ? [{ user: MANY }, { user: { email: MANY } }] : []]) {
        t.ok(await refuse(large) <= 3, `${operation.name}: a large body`)
      }
    }
  }
  t.ok(count > 300, `${count} bodies`)
})

t.test('a parameter of the wrong type is refused', async (t) => {
  for (const operation of operations) {
    const url = operation.urlWith()
    for (const { name, schema } of operation.query) {
      const wrong = schema.type === 'integer' ? WRONG_NUMBERS.map((text) => `${name}=${text}`) : []
      for (const query of [...wrong, `${name}=1&${name}=1`]) {
        const { statusCode } = await ask(operation, `${url}?${query}`)
        t.equal(statusCode, 422, `${operation.name}?${query}`)
      }
    }
    if (!operation.path.includes('{id}') || operation.method === 'OPTIONS' as never) continue
    for (const id of ['x', '1', `urn:uuid:${randomUUID()}`, `${randomUUID()}%0a`, '%00', 'toString']) {
      const response = await ask(operation, operation.urlWith({ id }))
      t.same(
        [response.statusCode, response.body],
        [404, '{"errors":["Not found"]}'],
        `${operation.name} ${id}`
      )
    }
  }
})

t.test('a management route refuses query parameters that it does not have, and names those that it has', async (t) => {
  const management = operations.filter(({ isManagement }) => isManagement)
  t.ok(management.length > 60)
  for (const operation of management.filter(({ name }) => name !== 'POST /assets')) {
    const names = operation.query.map(({ name }) => name)
    const has = names.length === 0 ? 'has none'
      : `has only ${names.join(', ').replace(/, (\w+)$/, ' and $1')}`
    const url = `${operation.urlWith()}?page=2&x=`
    const response = await ask(operation, url)
    t.equal(response.statusCode, 422, operation.name)
    const errors = [`Query parameter page, x is unknown (this route ${has})`]
    t.same(response.json(), { errors }, operation.name)
    if (!operation.name.startsWith('GET ')) continue
    t.equal((await sendAs(app, account, 'HEAD', url)).statusCode, 422, `HEAD ${operation.path}`)
  }
  const both = await sendAs(app, account, 'GET', '/assets?offset=1&limit=0')
  t.same(both.json().errors, [
    'Query parameter offset is unknown (this route has only limit, cursor, q, sort and type)',
    'Limit must be a whole number from 1 to 100'
  ], 'with the other errors')
  t.equal((await sendAs(app, NOBODY, 'GET', '/assets?page=2')).statusCode, 401, 'without a token')
  t.equal((await app.inject('/openapi.json?page=2')).statusCode, 200, 'outside of the management API')
})
