import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ANY_ORIGIN_ERROR_HEADERS, DATA_HEADERS, FILE_HEADERS, IMMUTABLE, JSON_CONTENT_TYPE,
  PDF_POLICY } from '../../../src/http/common-headers.ts'

// nginx sends files and its own errors with headers from its own configuration. They must equal the
// headers of the service.

const template = readFileSync(join(import.meta.dirname, '../../../deploy/nginx/nginx.conf.template'), 'utf8')

/** Returns the text from `start` to the closing brace of its block. */
function block (start: string): string {
  const from = template.indexOf(start)
  if (from === -1) throw new Error(`the template has no ${start}`)
  let depth = 0
  for (let at = template.indexOf(' {', from) + 1; at < template.length; at++) {
    if (template[at] === '{') depth++
    if (template[at] === '}' && --depth === 0) return template.slice(from, at)
  }
  throw new Error(`${start} does not end`)
}

const unquoted = (text: string): string => text.replace(/^"(.*)"$/, '$1')

/** The headers that a location adds, by lower-case name. */
const headersOf = (location: string): Record<string, string> =>
  Object
    .fromEntries([...block(location).matchAll(/add_header (\S+) (".*?"|\S+?)(?: always)?;/g)].map((
      [, name = '', value = '']
    ) => [name.toLowerCase(), unquoted(value)]))

/** The values of an nginx map, by pattern. */
const mapOf = (variable: string): Record<string, string> =>
  Object
    .fromEntries([
      ...(/ (\$\w+) \{\n([^}]*)/.exec(template.slice(template.indexOf(` ${variable} {`)))?.[2] ?? '')
        .matchAll(/^\s*(".*?"|\S+) (.*);$/gm)
    ].map(([, pattern = '', value = '']) => [pattern, unquoted(value)]))

const UPLOADS = '~^/uploads/'
const PAGES = '~^/landing_pages/'
const BOTH = '~^/(landing_pages|uploads)/'

t.test('nginx sends files with the headers of the service', async (t) => {
  const headers = headersOf('location ~ "^/uploads/')
  const { 'content-security-policy': policy, ...others } = FILE_HEADERS
  t.match(headers, others)
  t.equal(headers['referrer-policy'], DATA_HEADERS['referrer-policy'])
  t.equal(headers['cache-control'], IMMUTABLE)
  t.equal(headers['content-security-policy'], '$landfall_file_policy')
  t.same(mapOf('$landfall_file_policy'), { default: policy, 'application/pdf': PDF_POLICY })
})

for (const location of ['location @error', 'location = /.refused']) {
  t.test(`${location} sends errors with the headers of the service`, async (t) => {
    const headers = headersOf(location)
    t.equal(headers['cache-control'], 'no-store')
    t.equal(headers['x-content-type-options'], DATA_HEADERS['x-content-type-options'])
    t.equal(headers['referrer-policy'], DATA_HEADERS['referrer-policy'])
    t.equal(headers['content-security-policy'], '$landfall_error_policy')
    t.equal(headers['access-control-allow-origin'], '$landfall_any_origin')
    t.equal(headers['access-control-expose-headers'], '$landfall_exposed')
    t.ok(block(location).includes(`default_type "${JSON_CONTENT_TYPE}"`))
  })
}

t.test('the headers of an error depend on its URL as in the service', async (t) => {
  t.same(mapOf('$landfall_error_policy'), {
    default: DATA_HEADERS['content-security-policy'],
    [UPLOADS]: FILE_HEADERS['content-security-policy']
  })
  t.same(mapOf('$landfall_any_origin'), {
    default: '',
    [BOTH]: ANY_ORIGIN_ERROR_HEADERS['access-control-allow-origin']
  })
  t.same(mapOf('$landfall_exposed'), {
    default: '',
    [PAGES]: ANY_ORIGIN_ERROR_HEADERS['access-control-expose-headers'],
    [UPLOADS]: FILE_HEADERS['access-control-expose-headers']
  })
})
