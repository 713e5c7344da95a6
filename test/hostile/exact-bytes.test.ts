import fc from 'fast-check'
import t from 'tap'
import type { CreatedPage } from '../helpers/app.ts'
import { requestOf, requestWith } from '../helpers/raw.ts'
import { hostileService, Probe } from './service.ts'

// For every JSON document and every way of writing it: what is read over HTTP is what was sent. The search for the
// document alone has its properties in test/landing-pages/document.test.ts.

const service = await hostileService(t)
const { account } = service
const probe = new Probe(t, service.url)
const headers = { Authorization: account.headers.authorization, 'Content-Type': 'application/json' }

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 2 })
const escape = (text: string): string => Array.from({ length: text.length }, (_, index) => `\\u${text.charCodeAt(index).toString(16).padStart(4, '0')}`).join('')
const special = fc.constantFrom('\\u0000', '\\ud800', '\\uDFFF\\ud83d', '\\/', '\\b\\f\\n\\r\\t', '\\\\', '\\"', '\u2028', '\u007f', '\ufeff', '\u{1f600}', '\u202e', 'e\u0301', '</script>')
const character = fc.oneof(special, fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }).map((unit) => /[\u0000-\u001f"\\]/.test(unit) || !unit.isWellFormed() ? escape(unit) : unit)) // eslint-disable-line no-control-regex
const stringText = fc.array(character, { maxLength: 6 }).map((parts) => `"${parts.join('')}"`)
const numberText = fc.tuple(fc.constantFrom('', '-'), fc.constantFrom('0', '1', '10', '12345678901234567890', '9'.repeat(400)), fc.constantFrom('', '.0', '.10', '.000000000000000000001'), fc.constantFrom('', 'e400', 'E+02', 'e-7', 'E-0'))
  .map((parts) => parts.join(''))
const keyText = fc.oneof(stringText, fc.constantFrom('"__proto__"', '"constructor"', '"toString"', '"current_data"', '"landing_page"', '"a"', '"\\u0061"', '""'))

const { container } = fc.letrec<{ value: string, container: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, fc.constantFrom('null', 'true', 'false'), numberText, stringText, tie('container')),
  container: fc.oneof(
    fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }).map((items) => `[${items.map((item) => item.join('')).join(',')}]`),
    fc.array(fc.tuple(space, keyText, space, tie('value'), space), { maxLength: 4 }).map((members) => `{${members.map(([a, key, b, value, c]) => `${a}${key}${b}:${value}${c}`).join(',')}}`)
  )
}))

/** A request's body around a document, and how it is sent. */
const envelope = fc.tuple(fc.boolean(), space, space, fc.constantFrom('', '"other":{"current_data":[0]},', '"current_data":{"lost":1},'))
  .map(([wrapped, a, b, before]) => (document: string) => wrapped ? `${a}{"landing_page":${b}{${before}${a}"current_data"${b}:${a}${document}}${a}}${b}` : `${a}{${before}"current_data"${a}:${b}${document}${a}}${b}`)

/** The document in a record, by the text around it. */
const within = (record: string): string => record.slice(record.indexOf('"current_data":') + 15, record.lastIndexOf(',"created_at":"'))

t.test('what is read is what was sent, by POST and by PATCH, with the wrapper and without', async (t) => {
  await fc.assert(fc.asyncProperty(container, container, envelope, envelope, async (first, second, inPost, inPatch) => {
    const created = await probe.sendBody(inPost(first), 'POST', '/landing_pages', headers, 'POST')
    t.equal(created.status, 201)
    const { id, public_id: publicId } = JSON.parse(created.body.toString()) as CreatedPage
    const read = async () => (await probe.send(requestOf(`/landing_pages/${publicId}`), 'read')).body.toString()
    const manage = async () => within((await probe.send(requestOf(`/manage/landing_pages/${id}`, headers), 'GET')).body.toString())
    const seen = [within(created.body.toString()), await manage(), await read()]
    const patched = await probe.send(requestWith(inPatch(second), 'PATCH', `/manage/landing_pages/${id}`, headers), 'PATCH', 'PATCH')
    const then = [within(patched.body.toString()), await manage(), await read()]
    const newest = (await probe.send(requestOf('/manage/landing_pages?limit=1', headers), 'list')).body.toString()
    return patched.status === 200 && seen.every((text) => text === first) && then.every((text) => text === second) && within(newest) === second
  }), { numRuns: 80 })
})
