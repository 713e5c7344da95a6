import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings, type Account,
  type CreatedPage } from '../../helpers/app.ts'
import { query } from '../../helpers/servers.ts'

// How often pages were read, as their owners see it. A process reports at its end what it has counted.

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface ReadCount {
  readonly at: string
  readonly reads: number
  readonly not_modified: number
}

/** Asks for the reads of a page. */
const ask = async (app: FastifyInstance, owner: Account, id: string, parameters = '') =>
  await sendAs(app, owner, 'GET', `/manage/landing_pages/${id}/reads${parameters}`)

/** Returns the hours or days with reads. */
async function counted (
  app: FastifyInstance,
  owner: Account,
  { id }: CreatedPage,
  parameters = ''
): Promise<ReadCount[]> {
  const entries = (await ask(app, owner, id, parameters)).json() as ReadCount[]
  return entries.filter(({ reads, not_modified: notModified }) => reads + notModified > 0)
}

/** Returns the sums of a page of the last 24 hours: the reads with 200 and with 304. */
async function sums (app: FastifyInstance, owner: Account, page: CreatedPage): Promise<[number, number]> {
  const entries = await counted(app, owner, page)
  return [
    entries.reduce((sum, entry) => sum + entry.reads, 0),
    entries.reduce((sum, entry) => sum + entry.not_modified, 0)
  ]
}

/** An app for the owner and one for readers, on one database. Closing the latter reports its reads. */
async function twoApps (t: Test, settings: Record<string, string> = {}) {
  const common = await testSettings(t)
  const app = await buildTestApp(t, common)
  const reader = await buildTestApp(t, { ...common, RATE_LIMIT_PUBLIC: '1000000', ...settings })
  return { app, reader, owner: await signUp(app), url: common.DATABASE_URL as string }
}

t.test('reads that got the document or a 304 are counted, by GET and HEAD, and no others', async (t) => {
  const { app, reader, owner } = await twoApps(t, { RATE_LIMIT_PUBLIC: '9' })
  const page = await createPage(app, owner)
  const other = await createPage(app, owner)
  const url = `/landing_pages/${page.public_id}`
  const statuses: number[] = []
  const read = async (method: 'GET' | 'HEAD' | 'OPTIONS', headers: Record<string, string> = {}, path = url) =>
    statuses.push((await reader.inject({ method, url: path, headers })).statusCode)
  await read('GET')
  await read('GET', { 'accept-encoding': 'br' })
  await read('HEAD')
  await read('GET', { 'if-none-match': page.etag })
  await read('HEAD', { 'if-none-match': page.etag })
  await read('GET', { 'if-match': '"other"' })
  await read('GET', {}, `/landing_pages/${randomPublicId()}`)
  await read('GET', {}, '/landing_pages/malformed')
  await read('OPTIONS')
  await read('GET')
  await read('GET')
  t.same(statuses, [200, 200, 200, 304, 304, 412, 404, 404, 204, 200, 429])
  await reader.close()
  t.same(await sums(app, owner, page), [4, 2])
  t.same(await sums(app, owner, other), [0, 0])
})

t.test('the reads of several processes add up, in their hour and on their day', async (t) => {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, settings)
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  /** Reads in a process of its own, at another time of day. */
  const readAt = async (time: number, times: number) => {
    Date.now = () => time
    const reader = await buildTestApp(t, { ...settings, RATE_LIMIT_PUBLIC: '1000' })
    for (let n = 0; n < times; n++) await reader.inject(`/landing_pages/${page.public_id}`)
    await reader.close()
  }
  const midnight = Date.parse('2026-03-01T00:00:00Z')
  await readAt(midnight - 1, 1)
  await readAt(midnight, 2)
  await readAt(midnight + HOUR_MS - 1, 3)
  await readAt(midnight + HOUR_MS, 4)
  await readAt(midnight + DAY_MS - 1, 5)
  Date.now = now // the token is of this time
  const between = 'from=2026-02-28&to=2026-03-02'
  t.same(await counted(app, owner, page, `?${between}`), [
    { at: '2026-02-28T23:00:00.000Z', reads: 1, not_modified: 0 },
    { at: '2026-03-01T00:00:00.000Z', reads: 5, not_modified: 0 },
    { at: '2026-03-01T01:00:00.000Z', reads: 4, not_modified: 0 },
    { at: '2026-03-01T23:00:00.000Z', reads: 5, not_modified: 0 }
  ])
  t.same(await counted(app, owner, page, `?per=day&${between}`), [
    { at: '2026-02-28T00:00:00.000Z', reads: 1, not_modified: 0 },
    { at: '2026-03-01T00:00:00.000Z', reads: 14, not_modified: 0 }
  ])
})

t.test('the hours and days are those of the parameters, with zeros in the gaps', async (t) => {
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => Date.parse('2026-11-23T10:15:00Z')
  const { app, owner, url } = await twoApps(t)
  const page = await createPage(app, owner)
  for (const [table, at] of [['hourly', '2026-11-23T08:00Z'], ['daily', '2026-11-23T00:00Z']]) {
    await query(url, `INSERT INTO landing_page_reads_${table} VALUES ('${page.id}', '${at}', 7, 8)`)
  }
  const cases: [parameters: string, first: string, last: string, length: number][] = [
    ['', '2026-11-22T11', '2026-11-23T10', 24],
    ['?per=day', '2026-10-25T00', '2026-11-23T00', 30],
    ['?from=2026-11-23', '2026-11-23T00', '2026-11-23T10', 11],
    ['?from=2026-11-23T08:59:59.999Z', '2026-11-23T08', '2026-11-23T10', 3],
    ['?to=2026-11-23T10:00:00Z', '2026-11-22T10', '2026-11-23T09', 24],
    ['?to=2026-11-23T10:00:00.001Z', '2026-11-22T11', '2026-11-23T10', 24],
    ['?from=2026-11-23T08:00:00Z&to=2026-11-23T09:00:00Z', '2026-11-23T08', '2026-11-23T08', 1],
    ['?from=2026-11-23T10:00:00%2B05:30&to=2026-11-23T10:30:00Z', '2026-11-23T04', '2026-11-23T10', 7],
    ['?from=2026-11-23T10:00:00+05:30&to=2026-11-23T10:30:00Z', '2026-11-23T04', '2026-11-23T10', 7],
    ['?per=day&from=2026-11-22T23:30:00-02:00', '2026-11-23T00', '2026-11-23T00', 1],
    ['?from=2026-10-24&to=2026-11-24T06:00:00Z', '2026-10-24T00', '2026-11-24T05', 750],
    ['?per=day&from=2024-11-04&to=2026-11-24', '2024-11-04T00', '2026-11-23T00', 750],
    ['?to=1970-01-01', '1969-12-31T00', '1969-12-31T23', 24],
    ['?to=9999-12-31T23:59:59Z', '9999-12-31T00', '9999-12-31T23', 24]
  ]
  for (const [parameters, first, last, length] of cases) {
    const response = await ask(app, owner, page.id, parameters)
    t.equal(response.statusCode, 200, `${parameters}: ${response.body.slice(0, 200)}`)
    t.equal(response.headers['cache-control'], 'private, no-cache')
    const entries = response.json() as ReadCount[]
    t.equal(entries.length, length, parameters)
    t.equal(entries[0]?.at, `${first}:00:00.000Z`, parameters)
    t.equal(entries.at(-1)?.at, `${last}:00:00.000Z`, parameters)
    const step = parameters.includes('per=day') ? DAY_MS : HOUR_MS
    for (const [index, { at, ...counts }] of entries.entries()) {
      t.equal(Date.parse(at), Date.parse(`${first}:00:00Z`) + index * step, 'ascending, without gaps')
      const has = at === (step === DAY_MS ? '2026-11-23T00:00:00.000Z' : '2026-11-23T08:00:00.000Z')
      t.same(counts, has ? { reads: 7, not_modified: 8 } : { reads: 0, not_modified: 0 }, at)
    }
  }
})

t.test('invalid parameters get a 422 with a sentence per broken rule', async (t) => {
  const { app, owner } = await twoApps(t)
  const page = await createPage(app, owner)
  const rule = 'must be a date such as 2026-11-23, or a time such as 2026-11-23T10:00:00Z'
  const tooMany = (per: string) => `From and to are too far apart (maximum is 750 ${per}s)`
  const cases: [string, ...string[]][] = [
    ['?from=yesterday', `From ${rule}`],
    ['?from=2026-02-30&to=2026-03-99', `From ${rule}`, `To ${rule}`],
    ['?from=2026-11-23&from=2026-11-24', 'From must be a string'],
    ['?from=x&per=week', `From ${rule}`, 'Per must be hour or day'],
    ['?from=2026-11-23&to=2026-11-23', 'From must be before to'],
    ['?from=9999-01-01', 'From must be before to'],
    ['?from=2026-10-24&to=2026-11-24T06:00:00.001Z', tooMany('hour')],
    ['?per=day&from=2024-11-03&to=2026-11-24', tooMany('day')]
  ]
  for (const [parameters, ...messages] of cases) {
    const response = await ask(app, owner, page.id, parameters)
    t.equal(response.statusCode, 422, parameters)
    t.same(response.json(), { errors: messages }, parameters)
  }
})

t.test('removing a page deletes its read counts, also those that are reported afterwards', async (t) => {
  const { app, reader, owner, url } = await twoApps(t)
  const [kept, deleted] = [await createPage(app, owner), await createPage(app, owner)]
  const settings = { DATABASE_URL: url, RATE_LIMIT_PUBLIC: '1000' }
  const secondReader = await buildTestApp(t, settings)
  for (const one of [reader, secondReader]) {
    for (const { public_id: id } of [kept, deleted]) await one.inject(`/landing_pages/${id}`)
  }
  await reader.close()
  for (const list of ['landing_pages', 'deleted_pages']) {
    t.equal((await sendAs(app, owner, 'DELETE', `/manage/${list}/${deleted.id}`)).statusCode, 204)
  }
  await secondReader.close()
  t.same(await sums(app, owner, kept), [2, 0])
  for (const table of ['hourly', 'daily']) {
    const rows = await query(url, `SELECT page_id, reads FROM landing_page_reads_${table}`)
    t.same(rows, [{ page_id: kept.id, reads: '2' }])
  }
})
