// Completes the OpenAPI document of @fastify/swagger: shared schemas and headers become components, and every
// public GET operation gets a corresponding HEAD operation.

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
  security?: readonly object[]
  responses: Record<string, Response>
}

/** The parts of an OpenAPI document that this file uses. */
export interface OpenApiDocument extends Json {
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Json>
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Keys whose values are examples or constants. They may look like schemas and are copied unchanged. */
const VALUES = new Set(['example', 'examples', 'default', 'const', 'enum'])

/** Replaces every schema with a title in `value` by a reference, and adds it to `schemas`. */
function nameSchemas<T> (value: T, schemas: Json): T
function nameSchemas (value: unknown, schemas: Json): unknown {
  if (Array.isArray(value)) return value.map((entry) => nameSchemas(entry, schemas))
  if (!isObject(value)) return value
  const named: Json = Object.fromEntries(Object.entries(value)
    .filter(([, entry]) => typeof entry !== 'function') // the keywords of http/validation.ts
    .map(([key, entry]) => [key, VALUES.has(key) ? entry : nameSchemas(entry, schemas)]))
  const { title, ...schema } = named
  if (typeof title !== 'string') return named
  schemas[title] = schema
  return { $ref: `#/components/schemas/${title}` }
}

/**
 * Replaces the headers of a response by references to components. A header that may be absent gets its own
 * component, `NAME-if-any`.
 */
function nameHeaders (response: Response, headers: Json): Response {
  if (response.headers === undefined) return response
  const references = Object.entries(response.headers as Record<string, Header>)
    .map(([name, { schema: { 'x-optional': isOptional, examples, ...schema }, ...header }]) => {
      const component = isOptional === true ? `${name}-if-any` : name
      headers[component] = { ...header, required: isOptional !== true, schema, example: examples[0] }
      return [name, { $ref: `#/components/headers/${component}` }]
    })
  return { ...response, headers: Object.fromEntries(references) }
}

/** The parts of a GET operation that HEAD lacks. Ranges are defined for GET only (RFC 9110, 14.2). */
const RANGES = { parameters: new Set(['range', 'if-range']), statuses: new Set(['206', '416']) }

/** Derives a HEAD operation from a GET operation: the same responses without bodies. */
function headOf (get: Operation): Operation {
  const responses = Object.entries(get.responses).filter(([status]) => !RANGES.statuses.has(status))
    .map(([status, { content: _none, ...response }]) => [status, response])
  return {
    ...get,
    ...(get.parameters !== undefined &&
      { parameters: get.parameters.filter(({ name }) => !RANGES.parameters.has(name)) }),
    operationId: get.operationId.replace(/^read/, 'head'),
    summary: `${get.summary} (headers only)`,
    responses: Object.fromEntries(responses)
  }
}

/** Completes the document that @fastify/swagger has generated. */
export function finishDocument (generated: OpenApiDocument): OpenApiDocument {
  const schemas: Json = {}
  const headers: Json = {}
  const paths = Object.entries(generated.paths).map(([path, { head: _unused, ...item }]) => {
    const operations: Record<string, Operation> = Object
      .fromEntries(Object.entries(item).map(([method, operation]) => {
        const responses = Object.entries(operation.responses).map((
          [status, response]
        ) => [status, nameHeaders(nameSchemas(response, schemas), headers)])
        const { security = [] } = operation // an empty list says that the operation is public
        return [method, {
          ...nameSchemas(operation, schemas),
          security,
          responses: Object.fromEntries(responses)
        }]
      }))
    // Every GET route also answers HEAD. /openapi.json lists HEAD only for public reads.
    if (operations.get?.tags.includes('Public') === true) operations.head = headOf(operations.get)
    return [path, operations]
  })
  return {
    ...generated,
    paths: Object.fromEntries(paths),
    components: { ...generated.components, schemas: sorted(schemas), headers: sorted(headers) }
  }
}

const sorted = (entries: Json): Json =>
  Object.fromEntries(Object.entries(entries).sort(([a], [b]) => a < b ? -1 : 1))
