import fc from 'fast-check'
import t from 'tap'
import type { CreatedPage } from '../../helpers/app.ts'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'
import { containerText, space } from '../../helpers/json-text.ts'

// Generated JSON documents in every notation, over HTTP. Tests of the search for the document in a body:
// test/unit/landing-pages/document.test.ts.

const service = await hostileService(t)
const { account } = service
const probe = new Probe(t, service.url)
const headers = { Authorization: account.headers.authorization, 'Content-Type': 'application/json' }

/** A function that wraps a document in a request body, with or without `landing_page`. */
const envelope = fc.tuple(
  fc.boolean(),
  space,
  space,
  fc.constantFrom('', '"other":{"current_data":[0]},', '"current_data":{"lost":1},')
)
  .map(([wrapped, a, b, before]) => (document: string) =>
    wrapped ? `${a}{"landing_page":${b}{${before}${a}"current_data"${b}:${a}${document}}${a}}${b}`
      : `${a}{${before}"current_data"${a}:${b}${document}${a}}${b}`
  )

/** Returns the text of the document in a record. */
const within = (record: string): string =>
  record.slice(record.indexOf('"current_data":') + 15, record.lastIndexOf(',"created_at":"'))

t.test('a document comes back byte for byte, however it was sent', async () => {
  await fc.assert(
    fc.asyncProperty(
      containerText,
      containerText,
      envelope,
      envelope,
      async (first, second, inPost, inPatch) => {
        const send = async (bytes: string | Buffer, method = 'GET') =>
          (await probe.send(bytes, method, method)).body.toString()
        const created = await send(requestWith(inPost(first), 'POST', '/landing_pages', headers), 'POST')
        const { id, public_id: publicId } = JSON.parse(created) as CreatedPage
        const url = `/manage/landing_pages/${id}`
        const reads = async () => [
          within(await send(requestOf(url, headers))),
          await send(requestOf(`/landing_pages/${publicId}`))
        ]
        const seen = [within(created), ...await reads()]
        const patched = await send(requestWith(inPatch(second), 'PATCH', url, headers), 'PATCH')
        const newest = await send(requestOf('/manage/landing_pages?limit=1', headers))
        const then = [within(patched), ...await reads(), within(newest)]
        return seen.every((text) => text === first) && then.every((text) => text === second)
      }
    ),
    { numRuns: 80 }
  )
})
