import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { cleanUpPages } from '../../../src/modules/landing-pages/cleanup.ts'
import { pruneRevisions,
  type RevisionLimits } from '../../../src/modules/landing-pages/revision-repository.ts'
import { buildTestApp, createPage, sendAs, signUp } from '../../helpers/app.ts'
import { containerText, valueText } from '../../helpers/json-text.ts'
import { query } from '../../helpers/servers.ts'

// Histories of pages compared with a model, and the removal of earlier versions.

const app = await buildTestApp(t)
const owner = await signUp(app)
const { DATABASE_URL: database = '' } = app.config

const UNLIMITED: RevisionLimits = { maxCount: 1e6, maxBytes: 1e12, replacedSince: null }
const prune = async (limits: Partial<RevisionLimits>): Promise<number> =>
  await pruneRevisions(app.database, { ...UNLIMITED, ...limits })
const urlOf = (id: string) => `/manage/landing_pages/${id}`
const get = async (url: string) => await sendAs(app, owner, 'GET', url)
const write = async (id: string, payload: string) =>
  await sendAs(app, owner, 'PUT', `${urlOf(id)}/document`, payload)
/** Adds a value to a document. @returns the new text; undefined if it isn't the old one with the value */
async function patch (id: string, before: string, name: string, value: string): Promise<string | undefined> {
  const isObject = before.trimStart().startsWith('{')
  const body = `[{"op":"add","path":"/${isObject ? name : '-'}","value":${value}}]`
  const type = { 'content-type': 'application/json-patch+json' }
  const { statusCode } = await sendAs(app, owner, 'PATCH', `${urlOf(id)}/document`, body, type)
  const { body: text } = await get(`${urlOf(id)}/document`)
  if (statusCode === 422) return text === before ? text : undefined // the name is there twice
  if (statusCode !== 204 || !text.includes(value)) return undefined
  const after = JSON.parse(text)
  const added = isObject ? after[name] : after.at(-1)
  return isDeepStrictEqual(added, JSON.parse(value)) ? text : undefined
}
const newPage = async (...documents: string[]): Promise<string> => {
  const { id } = await createPage(app, owner, documents[0])
  for (const document of documents.slice(1)) await write(id, document)
  return id
}
const versionsOf = async (id: string): Promise<number[]> =>
  (await get(`${urlOf(id)}/revisions?limit=100`)).json().map((each: any) => each.version)

interface Version {
  readonly version: number
  readonly text: string
  readonly restored_from: number | null
}

/** What a page has to return. `versions` are those that are kept, newest first. */
class Model {
  versions: Version[]

  constructor (text: string) {
    this.versions = [{ version: 1, text, restored_from: null }]
  }

  get current (): Version {
    return this.versions[0] as Version
  }

  write (text: string, restoredFrom: number | null = null): void {
    if (text === this.current.text) return
    this.versions.unshift({ version: this.current.version + 1, text, restored_from: restoredFrom })
  }

  prune (maxCount: number, maxBytes: number): void {
    let bytes = 0
    this.versions = this.versions.filter(({ text }, index) => {
      if (index > 0) bytes += Buffer.byteLength(text)
      return index === 0 || (index <= maxCount && bytes <= maxBytes)
    })
  }
}

const step = fc.oneof(
  fc.record({ does: fc.constant('write' as const), text: containerText }),
  fc.record({ does: fc.constant('rewrite' as const), back: fc.nat(3) }),
  fc.record({ does: fc.constant('restore' as const), version: fc.integer({ min: 1, max: 12 }) }),
  fc.record({
    does: fc.constant('patch' as const),
    name: fc.constantFrom('a', '', '__proto__'),
    value: valueText
  }),
  fc.record({ does: fc.constant('prune' as const), count: fc.nat(6), bytes: fc.nat(200) })
)

t.test('any history comes back byte for byte', async (t) => {
  await fc.assert(
    fc.asyncProperty(containerText, fc.array(step, { maxLength: 14 }), async (first, steps) => {
      const { id } = await createPage(app, owner, first)
      const model = new Model(first)
      for (const next of steps) {
        if (next.does === 'write' || next.does === 'rewrite') {
          const text = next.does === 'write' ? next.text
            : (model.versions[Math.min(next.back, model.versions.length - 1)] as Version).text
          if ((await write(id, text)).statusCode !== 204) return false
          model.write(text)
        } else if (next.does === 'restore') {
          const source = model.versions.find(({ version }) => version === next.version)
          const url = `${urlOf(id)}/revisions/${next.version}/restore`
          const { statusCode } = await sendAs(app, owner, 'POST', url)
          if (statusCode !== (source === undefined ? 404 : 200)) return false
          if (source !== undefined) model.write(source.text, source.version)
        } else if (next.does === 'patch') {
          const text = await patch(id, model.current.text, next.name, next.value)
          if (text === undefined) return false
          model.write(text)
        } else {
          await prune({ maxCount: next.count, maxBytes: next.bytes })
          model.prune(next.count, next.bytes)
        }
      }
      const list = (await get(`${urlOf(id)}/revisions?limit=100`)).json()
      const expected = model.versions.map(({ version, text, restored_from: restored }) => ({
        version,
        etag: `"${createHash('sha256').update(text).digest('base64url')}"`,
        byte_size: Buffer.byteLength(text),
        restored_from: restored
      }))
      t.match(list, expected)
      for (const { version, text } of model.versions) {
        if ((await get(`${urlOf(id)}/revisions/${version}`)).body !== text) return false
      }
      return list.length === expected.length &&
        (await get(`${urlOf(id)}/document`)).body === model.current.text
    }),
    { numRuns: 60 }
  )
})

t.test('the newest versions are kept up to the number and the size', async (t) => {
  const documents = Array.from({ length: 10 }, (_, index) => `["${index}${'x'.repeat(95)}"]`) // 100 bytes
  const id = await newPage(...documents)
  const other = await newPage('[1]', '[2]')
  await prune({ maxCount: 8 })
  t.same(await versionsOf(id), [10, 9, 8, 7, 6, 5, 4, 3, 2], 'the current one and eight more')
  await prune({ maxBytes: 399 })
  t.same(await versionsOf(id), [10, 9, 8, 7])
  t.same(await versionsOf(other), [2, 1], 'each page by itself')
  t.equal((await get(`${urlOf(id)}/revisions/6`)).statusCode, 404)
  await prune({ maxCount: 0 })
  t.same(await versionsOf(id), [10], 'the current version always')
  t.equal((await get(`${urlOf(id)}/document`)).body, documents[9])
})

t.test('the age of a version counts from when it was replaced', async (t) => {
  const id = await newPage('[1]', '[2]', '[3]', '[4]')
  const age = async (version: number, days: number) =>
    await query(
      database,
      `UPDATE landing_page_revisions SET created_at = now() - interval '${days} days'
        WHERE page_id = '${id}' AND version = ${version}`
    )
  await age(1, 300)
  await age(2, 200)
  await age(3, 100)
  const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60 * 1000)
  await prune({ replacedSince: daysAgo(250) })
  t.same(await versionsOf(id), [4, 3, 2, 1])
  await prune({ replacedSince: daysAgo(150) })
  t.same(await versionsOf(id), [4, 3, 2], 'version 1 was replaced 200 days ago')
  await prune({ replacedSince: daysAgo(90) })
  t.same(await versionsOf(id), [4, 3], 'version 3 is 100 days old, but was replaced today')
})

t.test('the cleanup ends with many pages and many versions, in small batches', async (t) => {
  const { id } = await createPage(app, owner, '[0]')
  await query(
    database,
    `INSERT INTO landing_page_revisions
      SELECT '${id}', n, '[]', 'x', 2, now(), 'user', 'x', NULL FROM generate_series(2, 1001) n`
  )
  await query(database, `UPDATE landing_pages SET version = 1002 WHERE id = '${id}'`)
  const user = await signUp(app)
  await query(
    database,
    `INSERT INTO landing_pages (id, user_id, public_id, current_data, content_hash)
      SELECT gen_random_uuid(), ${user.user.id}, 'p' || n, '[]', 'x' FROM generate_series(1, 1000) n`
  )
  t.equal(await prune({ maxCount: 3 }), 998)
  t.same(await versionsOf(id), [1002, 1001, 1000, 999])
  t.equal(await prune({ maxCount: 3 }), 0)
})

t.test('no version outlives a newer one, even if only the older one fits into the size', async (t) => {
  const { id } = await createPage(app, owner, '[0]')
  const size = 'CASE WHEN n = 300 THEN 60 WHEN n >= 150 THEN 50 ELSE 2 END'
  await query(
    database,
    `INSERT INTO landing_page_revisions
      SELECT '${id}', n, '[]', 'x', ${size}, now(), 'user', 'x', NULL FROM generate_series(1, 300) n`
  )
  await query(database, `UPDATE landing_pages SET version = 301, authored_version = 301 WHERE id = '${id}'`)
  await prune({ maxBytes: 100 })
  t.same(await versionsOf(id), [301, 300])
})

t.test('the settings limit what the cleanup keeps', async (t) => {
  const id = await newPage('[1]', '[2]', '[3]')
  const settings = { DATABASE_URL: database, REVISIONS_MAX: '1', UPLOADS_DIR: app.config.UPLOADS_DIR }
  await cleanUpPages(await buildTestApp(t, { settings }))
  t.same(await versionsOf(id), [3, 2])
})
