// What @fastify/swagger makes of the routes' schemas, made into a document for people and generators: schemas and headers
// that several answers share have one name and one place, and HEAD stands beside the public GETs.

type Json = Record<string, unknown>

interface Header extends Json {
  schema: Json & { examples: readonly unknown[] }
}

interface Response extends Json {
  headers?: Record<string, Header | Reference>
}

interface Reference {
  $ref: string
}

interface Operation extends Json {
  operationId: string
  summary: string
  tags: string[]
  parameters?: { name: string }[]
  responses: Record<string, Response>
}

/** The parts of a document that are looked into here. */
export interface OpenApiDocument extends Json {
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Json>
}

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Where a document holds values of the service, which may look like schemas and are none. */
const VALUES = new Set(['example', 'examples', 'default', 'const', 'enum'])

/** Moves every schema with a title below `value` to `schemas`, under that title. */
function nameSchemas<T> (value: T, schemas: Json): T
function nameSchemas (value: unknown, schemas: Json): unknown {
  if (Array.isArray(value)) return value.map((entry) => nameSchemas(entry, schemas))
  if (!isObject(value)) return value
  const named: Json = Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, VALUES.has(key) ? entry : nameSchemas(entry, schemas)]))
  const { title, ...schema } = named
  if (typeof title !== 'string') return named
  schemas[title] = schema
  return { $ref: `#/components/schemas/${title}` }
}

/** Moves the headers of a response to `headers`; one that some answers may go without is there a second time, as optional. */
function nameHeaders (response: Response, headers: Json): Response {
  if (response.headers === undefined) return response
  const references = Object.entries(response.headers as Record<string, Header>).map(([name, { schema: { 'x-optional': isOptional, examples, ...schema }, ...header }]) => {
    const component = isOptional === true ? `${name}-if-any` : name
    headers[component] = { ...header, required: isOptional !== true, schema, example: examples[0] }
    return [name, { $ref: `#/components/headers/${component}` }]
  })
  return { ...response, headers: Object.fromEntries(references) }
}

/** What only GET has (RFC 9110, 14.2): to HEAD there are no parts of a body. */
const RANGES = { parameters: new Set(['range', 'if-range']), statuses: new Set(['206', '416']) }

/** The HEAD of an operation: its answers without their bodies. */
function headOf (get: Operation): Operation {
  const responses = Object.entries(get.responses)
    .filter(([status]) => !RANGES.statuses.has(status))
    .map(([status, { content: _none, ...response }]) => [status, response])
  return {
    ...get,
    ...(get.parameters !== undefined && { parameters: get.parameters.filter(({ name }) => !RANGES.parameters.has(name)) }),
    operationId: get.operationId.replace(/^read/, 'head'),
    summary: `${get.summary}: only the headers`,
    responses: Object.fromEntries(responses)
  }
}

/** Gives what @fastify/swagger has collected its last form. */
export function finishDocument (collected: OpenApiDocument): OpenApiDocument {
  const schemas: Json = {}
  const headers: Json = {}
  const paths = Object.entries(collected.paths).map(([path, { head: _unused, ...item }]) => {
    const operations: Record<string, Operation> = Object.fromEntries(Object.entries(item).map(([method, operation]) => {
      const responses = Object.entries(operation.responses).map(([status, response]) => [status, nameHeaders(nameSchemas(response, schemas), headers)])
      return [method, { ...nameSchemas(operation, schemas), responses: Object.fromEntries(responses) }]
    }))
    // HEAD is there for every GET; it is written down where clients use it.
    if (operations.get?.tags.includes('Public') === true) operations.head = headOf(operations.get)
    return [path, operations]
  })
  return { ...collected, paths: Object.fromEntries(paths), components: { ...collected.components, schemas: sorted(schemas), headers: sorted(headers) } }
}

const sorted = (entries: Json): Json => Object.fromEntries(Object.entries(entries).sort(([a], [b]) => a < b ? -1 : 1))
