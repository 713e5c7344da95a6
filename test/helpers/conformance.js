// Compares every response of the service with /openapi.json and with the rules of HTTP; a difference fails
// the test. It runs in the test's process (imported by app.ts) and, as JavaScript with --import, in services
// that tests start (service.ts).

import { createHash } from 'node:crypto'
import diagnostics from 'node:diagnostics_channel'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { brokenRules } from './http-rules.js'

/** Begins each line about a difference; helpers/service.ts searches the output for it. */
const MARK = 'NOT AS DESCRIBED: '

/** Statuses that every path may have; the description mentions them in its text only. */
const ANYWHERE = new Set([405, 414, 417, 431])

/** Paths outside the API: the reference page, the console, the client's package, pages of mailed links. */
const HIDDEN = /^\/(docs(\/|$)|console(\/|$)|account\/|client\.tgz$|$)/

/** Headers for browsers and connections, which the description omits. */
const UNTOLD = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
  'content-security-policy',
  'cross-origin-resource-policy',
  'referrer-policy',
  'strict-transport-security',
  'timing-allow-origin',
  'x-content-type-options'
])

/** Headers of responses to pages in CORS_ORIGINS. */
const MANAGEMENT_CORS = new Set(['access-control-allow-origin', 'access-control-expose-headers', 'vary'])

/** Longer bodies are not checked. */
const MAX_BODY = 4 * 1024 * 1024

/** Compares responses with one OpenAPI document. */
class Description {
  #document
  #paths
  #ajv
  #validators = new Map()

  constructor (document) {
    const require = createRequire(import.meta.url)
    const { Ajv2020 } = require('ajv/dist/2020.js')
    this.#document = closed(document)
    // test/integration/openapi checks the schemas themselves.
    this.#ajv = new Ajv2020({ strict: false, allErrors: true, meta: false, validateSchema: false })
    require('ajv-formats').default(this.#ajv)
    this.#ajv.addSchema({ $id: 'openapi', ...this.#document })
    this.#paths = Object.entries(document.paths).map(([path, item]) => {
      const pattern =
        new RegExp(`^${
          path.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, path.startsWith('/uploads/') ? '.*' : '[^/]+')
        }$`)
      return { path, item, pattern }
    })
  }

  /** Returns the differences of a response. `body` is undefined if it was too long to keep. */
  problems (method, url, { status, headers, body }) {
    const path = unescaped(url.replace(/^https?:\/\/[^/]*/i, '').replace(/[?#].*$/s, ''))
    const found = this.#paths.filter(({ pattern }) => pattern.test(path))
    const name = method.toLowerCase()
    const { path: template, item } = found.find(({ item }) => item[name] !== undefined) ??
      found.find(({ item }) => name === 'head' && item.get !== undefined) ?? found[0] ?? {}
    const operation = item?.[name] ?? (name === 'head' ? item?.get : undefined)
    if (operation === undefined || (ANYWHERE.has(status) && operation.responses[status] === undefined)) {
      return this.#undescribed(method, path, { status, headers, body })
    }

    const verb = operation === item[name] ? name : 'get'
    const where = ['paths', template, verb, 'responses', String(status)]
    const response = operation.responses[status]
    if (response === undefined) {
      return [
        `has no description for ${status}: add it to \`response\` in the schema of ` +
        `${operation.operationId} (src/*/schemas.ts), or change the response`
      ]
    }
    return [
      ...this.#headerProblems(response.headers ?? {}, headers, operation),
      ...this.#bodyProblems(where, method === 'HEAD' ? {} : response.content ?? {}, headers, body, method)
    ]
  }

  #undescribed (method, path, { status, headers, body }) {
    if (HIDDEN.test(path)) return []
    if (method === 'OPTIONS' && status === 204 && headers['access-control-allow-methods'] !== undefined) {
      return []
    }
    if (status < 400) {
      return ['is not described: give its route a schema with an operationId and tags (src/*/schemas.ts)']
    }
    if (status === 405 && headers.allow === undefined) return ['has no Allow header']
    return method === 'HEAD' ? []
      : this.#validate(['components', 'schemas', 'Errors'], parsed(headers, body), 'its body')
  }

  #headerProblems (described, headers, { tags }) {
    const problems = []
    const byName = new Map(Object.entries(described).map((
      [name, reference]
    ) => [name.toLowerCase(), { name, component: reference.$ref.split('/').at(-1) }]))
    for (const [name, { name: spelled, component }] of byName) {
      const value = headers[name]
      const { required, schema } = this.#document.components.headers[component]
      if (value === undefined) {
        if (required) {
          problems
            .push(`lacks the header ${spelled}: send it, or mark it as optional ('${spelled}?')`)
        }
      } else {
        const typed = schema.type === 'integer' && /^\d+$/.test(value) ? Number(value) : String(value)
        problems
          .push(...this.#validate(
            ['components', 'headers', component, 'schema'],
            typed,
            `the header ${spelled}`
          ))
      }
    }
    for (const name of Object.keys(headers)) {
      if (byName.has(name) || UNTOLD.has(name) || (MANAGEMENT_CORS.has(name) && !tags.includes('Public'))) {
        continue
      }
      problems
        .push(`has the header ${name}, which is not described: add it to the response in the route's schema ` +
          '(HEADERS in src/http/schemas.ts)')
    }
    return problems
  }

  #bodyProblems (where, content, headers, body, method) {
    const types = Object.keys(content)
    const length = body === undefined ? Infinity : body.length
    if (types.length === 0) {
      return length === 0 ? []
        : [
          method === 'HEAD' ? 'has a body although the method is HEAD' : 'has a body, which is not described'
        ]
    }
    const type = (headers['content-type'] ?? '').replace(/;.*/s, '')
    const matching = types.find((one) => one === type) ?? types.find((one) => one === '*/*')
    if (matching === undefined) {
      return [`has the content type ${type || 'none'} instead of ${types.join(', ')}`]
    }
    if (matching !== 'application/json' || body === undefined) return []
    return this.#validate([...where, 'content', matching, 'schema'], parsed(headers, body), 'its body')
  }

  #validate (where, value, what) {
    const pointer = where.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
      .join('/')
    let validator = this.#validators.get(pointer)
    if (validator === undefined) {
      this.#validators.set(pointer, validator = this.#ajv.compile({ $ref: `openapi#/${pointer}` }))
    }
    if (validator(value)) return []
    const reasons = validator.errors.map(({ instancePath, message, params }) =>
      `${instancePath} ${message}${
        params.additionalProperty === undefined ? '' : ` (${params.additionalProperty})`
      }`.trim()
    )
    return [`differs in ${what}: ${[...new Set(reasons)].join('; ')}`]
  }
}

/** Decodes a path like the router, which accepts every character escaped. */
function unescaped (path) {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** Returns a copy of a schema in which objects may have only the described properties. */
function closed (value) {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const copy = Object
    .fromEntries(Object.entries(value).map((
      [key, entry]
    ) => [key, key === 'example' || key === 'examples' ? entry : closed(entry)]))
  return copy.type === 'object' && copy.properties !== undefined && copy.additionalProperties === undefined
    ? { ...copy, additionalProperties: false } : copy
}

function parsed (headers, body) {
  if (body === undefined) return { errors: ['not kept'] }
  const encoding = headers['content-encoding']
  const bytes = encoding === 'br' ? brotliDecompressSync(body) : encoding === 'gzip' ? gunzipSync(body) : body
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

/** Parses the responses that are written to one connection. */
class ResponseParser {
  #requests = []
  #bytes = Buffer.alloc(0)
  #current
  #report

  constructor (report) {
    this.#report = report
  }

  expect (request) {
    this.#requests.push(request)
  }

  /** Takes written bytes. Never throws, because it runs inside of `socket.write`. */
  take (bytes) {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    while (this.#bytes.length > 0 && (this.#current === undefined ? this.#takeHead() : this.#takeBody()));
  }

  #takeHead () {
    const end = this.#bytes.indexOf('\r\n\r\n')
    if (end < 0) return false
    const [first, ...lines] = this.#bytes.subarray(0, end).toString('latin1').split('\r\n')
    this.#bytes = this.#bytes.subarray(end + 4)
    const status = Number(first.slice(9, 12))
    if (status < 200) return true
    const headers = {}
    for (const line of lines) {
      const colon = line.indexOf(':')
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
    }
    const request = this.#requests.shift()
    const bodiless = request?.method === 'HEAD' || status === 204 || status === 304
    const left = bodiless ? 0
      : headers['transfer-encoding'] === 'chunked' ? 'chunked' : Number(headers['content-length'] ?? Infinity)
    this.#current = { request, status, headers, left, body: [], size: 0 }
    if (left === 0) this.#finish()
    return true
  }

  #takeBody () {
    const { left } = this.#current
    if (left === 'chunked') {
      const line = this.#bytes.indexOf('\r\n')
      const size = line < 0 ? NaN : parseInt(this.#bytes.subarray(0, line).toString('latin1'), 16)
      if (Number.isNaN(size) || this.#bytes.length < line + 2 + size + 2) return false
      this.#keep(this.#bytes.subarray(line + 2, line + 2 + size))
      this.#bytes = this.#bytes.subarray(line + 2 + size + 2)
      if (size === 0) this.#finish()
      return true
    }
    const part = this.#bytes.subarray(0, left)
    this.#bytes = this.#bytes.subarray(part.length)
    this.#keep(part)
    this.#current.left -= part.length
    if (this.#current.left === 0) this.#finish()
    return true
  }

  #keep (part) {
    const current = this.#current
    current.size += part.length
    if (current.size <= MAX_BODY && /json/.test(current.headers['content-type'] ?? '')) {
      current.body.push(part)
    } else current.body = []
  }

  #finish () {
    const { request, status, headers, body, size } = this.#current
    this.#current = undefined
    const bytes = Buffer.concat(body)
    if (request !== undefined) {
      this.#report(request, { status, headers, body: bytes.length === size ? bytes : undefined })
    }
  }
}

/** Apps by server. */
const apps = new WeakMap()
const connections = new WeakMap()

/** Differences that were already printed, so that a load of reads prints each only once. */
const told = new Set()

/** Descriptions by routes, which decide the document. Making one is slow. */
const descriptions = new Map()

function descriptionOf (fastify) {
  const key = createHash('sha256').update(fastify.printRoutes()).digest('hex')
  let description = descriptions.get(key)
  if (description === undefined) {
    descriptions.set(key, description = new Description(documentOf(fastify, key)))
  }
  return description
}

/** Returns the document. A test file starts many processes, each of which would need 80 ms to make it. */
function documentOf (fastify, key) {
  const file = join(tmpdir(), `openapi-${key}.json`)
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    const document = fastify.swagger()
    try {
      writeFileSync(`${file}.${process.pid}`, JSON.stringify(document))
      renameSync(`${file}.${process.pid}`, file)
    } catch {
      // The process may not write there.
    }
    return document
  }
}

/** Returns the differences of a response in one line; undefined if there are none. */
function check (app, { method, url }, response) {
  if (app.fastify.swagger === undefined) return undefined // an app that a test made without the service
  app.description ??= descriptionOf(app.fastify)
  const problems = [
    ...app.description.problems(method, url, response),
    ...brokenRules({ method, url, ...response }).map((rule) => `breaks a rule of HTTP (${rule})`)
  ]
  if (problems.length === 0) return undefined
  return `${MARK}${method} ${response.status} of ${url.slice(0, 200)}: ${problems.join('; and it ')}`
}

diagnostics.subscribe('fastify.initialization', ({ fastify }) => {
  const app = { fastify, description: undefined }
  apps.set(fastify.server, app)
  const { inject } = fastify
  fastify.inject = function (request, done) {
    const injected = inject.call(this, request, done)
    if (request === undefined || done !== undefined) return injected
    return Promise.resolve(injected).then((response) => {
      const headers = Object
        .fromEntries(Object.entries(response.headers).map(([name, value]) => [name, String(value)]))
      const problem = check(app, response.raw.req, {
        status: response.statusCode,
        headers,
        body: response.rawPayload
      })
      if (problem !== undefined) throw new Error(problem)
      return response
    })
  }
})

diagnostics.subscribe('http.server.request.start', ({ request, socket, server }) => {
  const app = apps.get(server)
  if (app === undefined) return
  let parser = connections.get(socket)
  if (parser === undefined) {
    connections.set(
      socket,
      parser = new ResponseParser((request, response) => {
        const problem = check(app, request, response)
        const kind = problem?.replace(/ of \S+:/, '')
        if (kind === undefined || told.has(kind)) return
        told.add(kind)
        process.exitCode = 1
        console.error(problem)
      })
    )
    const { write } = socket
    socket.write = function (bytes, encoding, done) {
      parser
        .take(typeof bytes === 'string' ? Buffer.from(bytes, typeof encoding === 'string' ? encoding : 'utf8')
          : bytes)
      return write.call(socket, bytes, encoding, done)
    }
  }
  parser.expect({ method: request.method, url: request.url })
})
