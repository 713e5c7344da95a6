import diagnostics from 'node:diagnostics_channel'
import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { TObject, TSchema } from '@sinclair/typebox'
import t from 'tap'
import { MAIL } from '../../../scripts/generate-client.ts'
import { NotFoundError } from '../../../src/errors.ts'
import { problemsOf, uncheckedInput } from '../../../src/http/validation.ts'
import { buildTestApp, signUp, testSettings } from '../../helpers/app.ts'

// Every route has a schema for all input that it reads, and the schema refuses values of the wrong type.

/** Routes whose handlers validate the input. The comments at `uncheckedInput` give the reasons. */
const UNCHECKED = ['GET /landing_pages/:public_id', 'HEAD /landing_pages/:public_id', 'POST /assets']
/** Routes of @fastify/swagger-ui, and pages, which read nothing of a request. */
const FOREIGN = /^\/(docs(\/|$)|console(\/|$)|account\/|client\.tgz$|\*$|$)/

type Part = 'body' | 'params' | 'querystring'
interface Route {
  readonly name: string
  readonly method: string
  readonly url: string
  /** The media type of the body. */
  readonly type: string
  readonly schemas: Readonly<Partial<Record<Part, TSchema>>>
  readonly isUnchecked: boolean
}

const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  string: [null, true, 1, [], {}, ['x']],
  integer: [null, true, 1.5, '1', [], {}],
  object: [null, true, 1, 'x', []],
  array: [null, true, 1, 'x', {}],
  'string,null': [true, 1, [], {}],
  'array,null': [true, 1, 'x', {}],
  'object or array': [null, true, 1, 'x']
}
const WRONG_TEXT: Readonly<Record<string, readonly string[]>> = {
  string: [],
  integer: ['', 'x', '1.5', '1e1', '%201', '0x1', 'true', 'null', '[]']
}

/** The schemas of a body by their media types. A route with several types is listed once for each. */
const bodiesOf = (body: TSchema | undefined): { type: string, schema: TSchema | undefined }[] =>
  body?.content === undefined ? [{ type: 'application/json', schema: body }]
    : Object.entries(body.content as Record<string, { schema: TSchema }>).map(([type, { schema }]) => ({
      type,
      schema
    }))

const settings = { ...MAIL, ...await testSettings(t) }
/** Some routes take requests of the service's own pages only. */
const origin = 'http://landfall.test'
const account = await signUp(await buildTestApp(t, settings))

const inject = async (app: FastifyInstance, { method, type }: Route, url: string, body?: unknown) =>
  await app.inject({
    method: method as 'GET',
    url,
    headers: { ...account.headers, origin },
    ...body !== undefined && { headers: { ...account.headers, origin, 'content-type': type } },
    ...body !== undefined && { payload: JSON.stringify(body) }
  })

const typeOf = ({ type, anyOf }: TSchema): string =>
  type?.toString() ?? (anyOf as TSchema[]).map((schema) => schema.type as string).join(' or ')
const propertiesOf = (schema: TSchema): [string, TSchema][] =>
  Object.entries((schema as TObject).properties ?? {})

/** Returns a value that is valid for a schema. */
function sample (schema: TSchema): unknown {
  if (schema.anyOf !== undefined) return sample(schema.anyOf[0])
  if (schema.type === 'object') {
    return Object.fromEntries(propertiesOf(schema).map(([name, property]) => [name, sample(property)]))
  }
  if (schema.type === 'array') return schema.minItems === undefined ? [] : [sample(schema.items)]
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.type?.includes('null') === true) return null
  if (schema.type === 'integer') return schema.minimum ?? 1
  if (schema.type === 'boolean') return true
  if (schema.format === 'uuid') return randomUUID()
  if (schema.pattern !== undefined) return 'A'.repeat(22)
  return 'someone@example.com'
}

/** Yields values of the wrong type, and valid objects with one property of the wrong type. */
function* misfits (schema: TSchema): Generator<unknown> {
  if (isDocument(schema) || schema.anyOf === undefined) yield* WRONG[typeOf(schema)] ?? []
  const shapes: TSchema[] = isDocument(schema) ? [] : schema.anyOf ?? [schema]
  for (const shape of shapes) {
    const fitting = sample(shape) as object
    for (const [name, property] of propertiesOf(shape)) {
      for (const wrong of misfits(property)) yield { ...fitting, [name]: wrong }
    }
  }
}
const isDocument = (schema: TSchema): boolean => ['Document', 'MergePatch'].includes(schema.title ?? '')

const letThrough: string[] = []
/** Statuses that helpers/conformance.js accepts on every route. */
const REACHED = 417
const REFUSED = 431
const routes: Route[] = []
/** Lists the routes, and replaces their handlers. */
const watch = (message: unknown) => {
  const { fastify } = message as { fastify: FastifyInstance }
  fastify.addHook('onRoute', (options) => {
    if (FOREIGN.test(options.url)) return
    const { body, params, querystring } = (options.schema ?? {}) as Route['schemas']
    const isUnchecked = options.validatorCompiler === uncheckedInput
    routes.push(...[options.method].flat().flatMap((method) =>
      bodiesOf(body).map(({ type, schema }) => ({
        name: `${method} ${options.url}`,
        method,
        url: options.url,
        type,
        schemas: {
          ...schema && { body: schema },
          ...params && { params },
          ...querystring && { querystring }
        },
        isUnchecked
      }))
    ))
    if (isUnchecked) return
    const name = `${[options.method].flat()[0]} ${options.url}`
    options.handler = async (request, reply) => {
      const { validationError } = request
      if (validationError !== undefined) {
        throw validationError instanceof NotFoundError ? validationError
          : Object.assign(new Error('refused'), { statusCode: REFUSED })
      }
      letThrough.push(name)
      return await reply.code(REACHED).type('application/json').header('cache-control', 'no-store')
        .send(Buffer.from('{"errors":["reached"]}'))
    }
  })
}
diagnostics.subscribe('fastify.initialization', watch)
const app = await buildTestApp(t, settings)
diagnostics.unsubscribe('fastify.initialization', watch)

/** The only routes whose method may have a body, but which read none. */
const WITHOUT_BODY = [
  'POST /manage/landing_pages/:id/revisions/:version/restore',
  'POST /manage/landing_pages/:id/unpublish',
  'POST /manage/deleted_pages/:id/restore',
  'POST /auth/email_confirmations',
  'POST /webhooks/:id/secret',
  'POST /webhooks/:id/test',
  'POST /webhooks/:id/sync',
  'POST /webhooks/:id/deliveries/:delivery_id/redeliver'
]

t.test('only the listed routes validate their input without a schema', async (t) => {
  t.same(routes.filter(({ isUnchecked }) => isUnchecked).map(({ name }) => name).sort(), UNCHECKED)
  t.ok(routes.length > 20, 'the test knows all routes')
})

t.test('every route has a schema for its URL parameters and its body', async (t) => {
  for (const { name, method, url, schemas } of routes) {
    const names = url.match(/:\w+|\*/g)?.map((found) => found.replace(':', '')) ?? []
    t.same(Object.keys(schemas.params?.properties ?? {}), names, `${name}: params`)
    if (['POST', 'PUT', 'PATCH'].includes(method) && !WITHOUT_BODY.includes(name)) {
      t.ok(schemas.body, `${name}: body`)
    }
  }
})

t.test('a value of the wrong type never reaches a handler', async (t) => {
  const urlOf = ({ url }: Route) =>
    url.replace(':id', randomUUID()).replace(':public_id', 'x').replace('*', 'x').replace(':version', '1')
      .replace(':link_id', randomUUID()).replace(':key', 'a')
  for (const route of routes.filter(({ isUnchecked }) => !isUnchecked)) {
    const { body, querystring, params } = route.schemas
    const fitting = body && sample(body)
    t.equal(
      (await inject(app, route, urlOf(route), fitting)).statusCode,
      REACHED,
      `${route.name}: a valid body`
    )
    letThrough.length = 0
    for (const wrong of body === undefined ? [] : misfits(body)) {
      const { statusCode } = await inject(app, route, urlOf(route), wrong)
      t.match(statusCode, /^4(?!17)/, `${route.name}: ${JSON.stringify(wrong)}`)
    }
    for (const [name, schema] of querystring === undefined ? [] : propertiesOf(querystring)) {
      const wrong = [
        ...(WRONG_TEXT[typeOf(schema)] ?? []).map((text) => `${name}=${text}`),
        `${name}=1&${name}=1`
      ]
      for (const query of wrong) {
        t.equal(
          (await inject(app, route, `${urlOf(route)}?${query}`)).statusCode,
          422,
          `${route.name}?${query}`
        )
      }
    }
    if (params?.properties.id !== undefined) {
      for (const id of ['x', '1', `urn:uuid:${randomUUID()}`, `${randomUUID()}%0a`, '%00', 'toString']) {
        const url = route.url.replace(':id', id).replace(':version', '1').replace(':link_id', randomUUID())
        const { statusCode, body } = await inject(app, route, url, fitting)
        t.same(
          [statusCode, body],
          [404, route.method === 'HEAD' ? '' : '{"errors":["Not found"]}'],
          `${route.name}: ${id}`
        )
      }
    }
    t.same(letThrough, [], route.name)
  }
})

t.test('a management route refuses query parameters that it does not have, and names those that it has', async (t) => {
  const management = routes.filter(({ url, method, isUnchecked }) =>
    /^\/(auth|assets|manage|landing_pages$|api_keys|webhooks)/.test(url) && method !== 'OPTIONS' &&
    !isUnchecked
  )
  t.equal(management.length, 91)
  for (const route of management) {
    const { body, querystring } = route.schemas
    const url = route.url.replace(':id', randomUUID()).replace(':version', '1').replace(
      ':link_id',
      randomUUID()
    )
    const response = await inject(app, route, `${url}?page=2&x=`, body && sample(body))
    const names = Object.keys(querystring?.properties ?? {})
    const has = names.length === 0 ? 'has none'
      : `has only ${names.join(', ').replace(/, (\w+)$/, ' and $1')}`
    t.equal(response.statusCode, 422, route.name)
    if (route.method === 'HEAD') continue
    t.same(
      response.json(),
      { errors: [`Query parameter page, x is unknown (this route ${has})`] },
      route.name
    )
  }
  const { body } = await app.inject({
    url: '/assets?offset=1&limit=0',
    headers: { ...account.headers, origin }
  })
  t.same(JSON.parse(body).errors, [
    'Query parameter offset is unknown (this route has only limit, cursor, q, sort and type)',
    'Limit must be a whole number from 1 to 100'
  ], 'with the other errors')
  t.equal((await app.inject('/assets?page=2')).statusCode, 401, 'without a token')
  t.equal((await app.inject('/openapi.json?page=2')).statusCode, REACHED, 'outside of the management API')
})

t.test('a large body causes at most three errors', async (t) => {
  for (const { schemas: { body } } of routes.filter(({ isUnchecked }) => !isUnchecked)) {
    if (body === undefined) continue
    const many = Array.from({ length: 10_000 }, () => null)
    for (
      const value of [many, { user: many }, { user: { email: many } }, {
        current_data: 1,
        landing_page: many
      }]
    ) {
      t.ok(problemsOf(body, value).length <= 3)
    }
  }
})
