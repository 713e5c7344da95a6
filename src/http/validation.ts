import { Type, type TSchema } from '@sinclair/typebox'
import { Ajv, type AnySchemaObject, type ErrorObject } from 'ajv'
import type { FastifyInstance, FastifyRequest, FastifySchemaCompiler,
  FastifySchemaValidationError } from 'fastify'
import { InvalidError, NotFoundError } from '../errors.ts'
import { UUID } from '../infra/system/identifiers.ts'

// Validates requests with Ajv. docs/adr/0012-validation-by-schema.md explains the options and the additional
// keywords `normalize` and `check`.

const ajv = new Ajv({
  allErrors: true,
  verbose: true, // describe() needs the schema and the value of each error
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  ownProperties: true, // inherited properties such as `toString` don't count
  formats: { uuid: UUID }
})

ajv.addKeyword({
  keyword: 'normalize',
  type: 'string',
  modifying: true,
  before: 'maxLength',
  errors: false,
  compile: (normalize: (text: string) => string) => (text: string, context) => {
    if (context !== undefined) context.parentData[context.parentDataProperty] = normalize(text)
    return true
  }
})

ajv.addKeyword({
  keyword: 'check',
  type: 'string',
  errors: true,
  compile: (check: (text: string) => readonly string[]) => {
    const validate = (text: string): boolean => {
      const problems = check(text)
      validate.errors = problems.map((message) => ({ keyword: 'check', message, params: {} }))
      return problems.length === 0
    }
    validate.errors = [] as Partial<ErrorObject>[]
    return validate
  }
})

/** Fastify's validator compiler for all routes. */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const validate = ajv.compile(schema)
  const integers = httpPart === 'querystring' ? integersIn(schema) : []
  return (value: Record<string, unknown>) => {
    parseIntegers(integers, value)
    return validate(value) || { error: problems(validate.errors as ErrorObject[], schema) }
  }
}

/** A validator compiler that accepts everything, for routes whose handlers validate their input. */
export const uncheckedInput = () => (): boolean => true

/** Fastify's schema error formatter. An invalid path parameter is a 404, any other error a 422. */
export function createValidationError (errors: FastifySchemaValidationError[], part: string): Error {
  return part === 'params' ? new NotFoundError() : new InvalidError(describe(errors as Problem[]))
}

const NO_PARAMETERS = Type.Object({})
const LIST_FORMAT = new Intl.ListFormat('en-GB')

/** Refuses query parameters that a route doesn't have, on all routes of a scope. */
export function refuseUnknownParameters (scope: FastifyInstance): void {
  scope.addHook('preValidation', (request, _reply, done) => {
    const { querystring = NO_PARAMETERS } = (request.routeOptions.schema ?? {}) as { querystring?: TSchema }
    const query = request.query as Record<string, unknown>
    const known = Object.keys(querystring.properties)
    const unknown = Object.keys(query).filter((name) => !known.includes(name))
    if (unknown.length === 0) return done()
    const has = known.length === 0 ? 'has none' : `has only ${LIST_FORMAT.format(known)}`
    parseIntegers(integersIn(querystring), query)
    done(new InvalidError([
      `Query parameter ${unknown.join(', ')} is unknown (this route ${has})`,
      ...problemsOf(querystring, query)
    ]))
  })
}

/** The error sentences of a request whose route sets `attachValidation`; empty if it is valid. */
export const attachedProblems = ({ validationError }: FastifyRequest): readonly string[] =>
  validationError instanceof InvalidError ? validationError.messages : []

/** Validates a value that isn't part of a request. Returns one sentence per broken rule. */
export function problemsOf (schema: TSchema, value: unknown): string[] {
  const validate = ajv.compile(schema)
  return validate(value) ? [] : describe(problems(validate.errors as ErrorObject[], schema))
}

/** An error of Ajv, with the example of the whole schema. */
type Problem = ErrorObject & FastifySchemaValidationError & { readonly example: unknown }

const problems = (errors: readonly ErrorObject[], { examples }: TSchema): Problem[] =>
  errors.map((error) => ({ ...error, example: examples?.[0] }) as Problem)

const integersIn = (schema: TSchema): string[] =>
  Object.entries<TSchema>(schema.properties).flatMap(([name, { type }]) => type === 'integer' ? [name] : [])

function parseIntegers (names: readonly string[], value: Record<string, unknown>): void {
  for (const name of names) value[name] = parseInteger(value[name])
}

/** Parses only digits: Number() would also accept `1e1`, ` 5` and an empty string. */
const parseInteger = (value: unknown): unknown =>
  typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value

const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  boolean: 'true or false',
  object: 'a JSON object',
  array: 'a JSON array',
  'object,array': 'a JSON object or array',
  'string,null': 'a string or null'
}

/** Turns the errors of one value into sentences, without duplicates. */
function describe (errors: readonly Problem[]): string[] {
  const byPath = new Map<string, Problem[]>()
  for (const error of relevant(errors)) {
    byPath.set(error.instancePath, [...byPath.get(error.instancePath) ?? [], error])
  }
  // An entry of a list has the name of the list.
  const sentences = [...byPath].flatMap(([path, atPath]) => describeField(path.replace(/\/\d+$/, ''), atPath))
  return [...new Set(sentences)]
}

/** If a body matches no alternative of `anyOf`, keeps only the errors of the closest alternative. */
function relevant (errors: readonly Problem[]): readonly Problem[] {
  if (!errors.some(({ keyword, instancePath }) => keyword === 'anyOf' && instancePath === '')) return errors
  const depthOf = ({ instancePath }: Problem): number => instancePath.split('/').length
  const deepest = Math.max(...errors.map(depthOf))
  return errors.filter((error) => depthOf(error) === deepest)
}

function describeField (path: string, errors: readonly Problem[]): string[] {
  const extraFields = errors.find(({ keyword }) => keyword === 'maxProperties')
  if (extraFields !== undefined) return [describeShape(extraFields.example)]
  const label = labelOf(path.slice(path.lastIndexOf('/') + 1))
  const wrongTypes = errors.filter(({ keyword }) => keyword === 'type')
  const [wrongType] = wrongTypes
  if (wrongType === undefined) {
    const isBlank = errors.some(({ keyword, data }) => keyword === 'minLength' && data === '')
    return isBlank ? [`${label} can't be blank`] : errors.flatMap((error) => describeRule(label, error))
  }
  const { data, parentSchema, example } = wrongType as Problem & { parentSchema: TSchema }
  const enclosing = wrongTypes.every(({ parentSchema }) => hasRequiredFields(parentSchema))
  if (enclosing) return [describeShape(example)]
  if (data === null && parentSchema.type === 'string') return [`${label} can't be blank`]
  if (parentSchema.pattern !== undefined) return [`${label} is invalid`]
  const types = [...new Set(wrongTypes.map(({ params }) => params.type as string))].join(',')
  return [types === 'integer' ? describeRange(label, parentSchema) : `${label} must be ${TYPES[types]}`]
}

function describeRule (label: string, problem: Problem): string[] {
  const { keyword, params, parentSchema, message, example } = problem
  switch (keyword) {
    case 'required':
      return [
        describeMissing(params.missingProperty, parentSchema?.properties[params.missingProperty], example)
      ]
    case 'minItems':
      return [`${label} can't be blank`]
    case 'minLength':
      return [`${label} is too short (minimum is ${params.limit} characters)`]
    case 'maxLength':
      return [`${label} is too long (maximum is ${params.limit} characters)`]
    case 'minimum':
    case 'maximum':
      return [describeRange(label, parentSchema as TSchema)]
    case 'enum':
      return [`${label} must be ${(params.allowedValues as string[]).join(' or ')}`]
    case 'check':
      return [`${label} ${message}`]
    case 'anyOf':
    case 'not':
      return [] // the errors of the subschemas say more
    default:
      return [`${label} is invalid`]
  }
}

function describeMissing (name: string, schema: AnySchemaObject | undefined, example: unknown): string {
  if (hasRequiredFields(schema)) return describeShape(example)
  const problem = schema?.type?.includes('null') === true ? 'is missing: send a value, or null for none'
    : "can't be blank"
  return `${labelOf(name)} ${problem}`
}

const describeRange = (label: string, { minimum, maximum }: TSchema): string =>
  `${label} must be a whole number ` +
  (maximum === undefined ? `of at least ${minimum}` : `from ${minimum} to ${maximum}`)

/** Whether a schema is of an object that only encloses the fields which the client has to send. */
const hasRequiredFields = (schema: AnySchemaObject | undefined): boolean =>
  (schema?.required?.length ?? 0) > 0

/** Names the shape of a body whose fields are not where they belong. */
const describeShape = (example: unknown): string => `Request body must look like ${JSON.stringify(example)}`

/** Turns `password_confirmation` into `Password confirmation`. */
const labelOf = (name: string): string =>
  name === '' ? 'Request body' : `${name.charAt(0).toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`
