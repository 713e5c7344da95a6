import t from 'tap'
import { MAX_SCHEDULES } from '../../../src/modules/landing-pages/schedule-repository.ts'
import { buildTestApp, createKey, createPage, senderFor, signUp, testSettings } from '../../helpers/app.ts'
import { claimRedis, query } from '../../helpers/servers.ts'
import { openTransaction } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Schedules, on three replicas. What a schedule promises when processes die is in
// test/system/faults/schedules.test.ts, and how other requests change it in publication-model.test.ts.

const base = await testSettings(t)
const settings = { ...base, REDIS_URL: await claimRedis(t), RATE_LIMIT_PUBLIC: '1000000' }
const app = await buildTestApp(t, settings)
const others = [await buildTestApp(t, settings), await buildTestApp(t, settings)]
const owner = await signUp(app)
const database = base.DATABASE_URL as string

const send = senderFor(app, owner)
const urlOf = (id: string, path = ''): string => `/manage/landing_pages/${id}${path}`
const read = async (publicId: string, reader = app) => {
  const { statusCode, body } = await reader.inject(`/landing_pages/${publicId}`)
  return statusCode === 200 ? body : statusCode
}
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
const schedule = async (id: string, publishAt: string | null, unpublishAt: string | null = null) =>
  await send('PUT', urlOf(id, '/schedule'), { publish_at: publishAt, unpublish_at: unpublishAt })
const scheduleOf = async (id: string) => (await send('GET', urlOf(id, '/schedule'))).json()
const NONE = { publish_at: null, unpublish_at: null }
const TOMORROW = inSeconds(86_400)
const LATER = inSeconds(2 * 86_400)
interface Version {
  readonly version: number
  readonly published: boolean
  readonly scheduled: boolean
  readonly created_at: string
  readonly author: object
}
const history = async (id: string): Promise<Version[]> => (await send('GET', urlOf(id, '/revisions'))).json()
const states = async (id: string) =>
  (await history(id)).map(({ version, published, scheduled }) => [version, published, scheduled])

t.test('a draft of a published page goes live at its time', async (t) => {
  const { id, public_id: publicId } = await createPage(app, owner, '{"v":1}')
  const draft = await send('PUT', urlOf(id, '/draft'), '{"v": 9.0}')
  const key = await createKey(app, owner, ['pages:write'], { name: 'planner' })
  const at = inSeconds(2)
  const match = { 'if-match': draft.headers.etag as string }
  const times = { publish_at: at, unpublish_at: null }
  const set = await send('PUT', urlOf(id, '/schedule'), times, match, key)
  t.same([set.statusCode, set.json()], [200, times])
  t.match((await send('GET', urlOf(id, '/publication'))).json(), { ...times, failure: null })
  const [summary] = (await send('GET', '/manage/landing_page_summaries?limit=1')).json()
  t.match(summary, { id, ...times })

  t.equal((await send('PUT', urlOf(id, '/document'), '{"v":2}')).statusCode, 204, 'it can be changed')
  t.ok(['{"v":2}', '{"v": 9.0}'].includes(await read(publicId) as string))
  for (const reader of [app, ...others]) {
    await until(async () => await read(publicId, reader) === '{"v": 9.0}')
  }
  t.same(await states(id), [[3, true, true], [2, true, false], [1, true, false]])
  t.same((await history(id))[0]?.author, { type: 'api_key', name: 'planner' }, 'who set the schedule')
  t.same(await scheduleOf(id), NONE)
  t.match((await send('GET', urlOf(id, '/publication'))).json(), { draft: null, publish_at: null })
  t.equal((await send('PUT', urlOf(id, '/draft'), '{"v":10}')).statusCode, 201, 'a new draft can be begun')
})

t.test('a scheduled draft cannot be changed, and the response names the time', async (t) => {
  const { id } = await createPage(app, owner, '{"v":1}')
  await send('PUT', urlOf(id, '/draft'), '{"v":2}')
  await schedule(id, TOMORROW)
  const patch = { 'content-type': 'application/merge-patch+json' }
  const requests: [Parameters<typeof send>[0], string?, Record<string, string>?][] = [
    ['PUT', '{"v":3}'],
    ['PATCH', '{"v":3}', patch],
    ['DELETE']
  ]
  for (const [method, body, headers] of requests) {
    const { statusCode, body: text } = await send(method, urlOf(id, '/draft'), body, headers)
    t.equal(statusCode, 409, method)
    t.match(text, TOMORROW)
  }
  t.equal((await send('DELETE', urlOf(id, '/draft'), undefined, { 'if-match': '"x"' })).statusCode, 412)
  t.equal((await send('DELETE', urlOf(id, '/schedule'))).statusCode, 204)
  t.equal((await send('DELETE', urlOf(id, '/schedule'))).statusCode, 204, 'again')
  t.equal((await send('DELETE', urlOf(id, '/draft'))).statusCode, 204)
  await schedule(id, null, LATER)
  t.same((await schedule(id, null)).json(), NONE, 'both times null: removed')
  t.same(await scheduleOf(id), NONE)
})

t.test('what is done by hand is no longer scheduled, also if it had been done already', async (t) => {
  const { id } = await createPage(app, owner, '{"v":1}')
  await send('POST', urlOf(id, '/unpublish'))
  await schedule(id, TOMORROW, LATER)
  await send('POST', urlOf(id, '/unpublish'))
  t.same(await scheduleOf(id), { publish_at: TOMORROW, unpublish_at: null })
  await send('POST', urlOf(id, '/publish'))
  t.same(await scheduleOf(id), NONE)
})

t.test('schedules that make no sense are refused', async (t) => {
  const { id } = await createPage(app, owner, '{"v":1}')
  const order = 'Unpublish at must be later than publish at'
  const offset = /must be a time with an offset/
  const publishing = (at: unknown) => ({ publish_at: at, unpublish_at: null })
  const unpublishing = (at: unknown) => ({ publish_at: null, unpublish_at: at })
  const refusals: [string, object | undefined, string | RegExp][] = [
    ['nothing to publish', publishing(TOMORROW), /nothing to publish/],
    ['the past', unpublishing(inSeconds(-1)), /Unpublish at must be later than now \(20/],
    ['6 years', unpublishing(inSeconds(6 * 366 * 86_400)), /within five years/],
    ['the last year', unpublishing('9999-12-31T08:00:00Z'), /within five years/],
    ['the wrong order', { publish_at: LATER, unpublish_at: TOMORROW }, order],
    ['the same time', { publish_at: LATER, unpublish_at: LATER }, order],
    ['a date', publishing('2027-01-31'), offset],
    ['no offset', publishing('2027-01-31T08:00:00'), offset],
    ['30 February', publishing('2027-02-30T08:00:00Z'), /names a day, .*not exist/],
    ['a space for the plus', publishing('2027-01-31T08:00:00 01:00'), /must be a time/],
    ['one time', { publish_at: TOMORROW }, 'Unpublish at is missing: send a value, or null for none'],
    ['no times', {}, /Publish at/]
  ]
  for (const [what, body, message] of refusals) {
    const { statusCode, body: text } = await send('PUT', urlOf(id, '/schedule'), body)
    t.equal(statusCode, 422, what)
    t.match(text, message, what)
  }
  t.same(await scheduleOf(id), NONE)
  const mismatch = await send('PUT', urlOf(id, '/schedule'), unpublishing(LATER), { 'if-match': '"x"' })
  t.equal(mismatch.statusCode, 412)
})

t.test('two schedules at once stay within the 1,000 of an account', async (t) => {
  const planner = await signUp(app)
  const pages = await Promise.all(Array.from({ length: 8 }, async () => await createPage(app, planner, '[]')))
  await query(
    database,
    `WITH pages AS (
      INSERT INTO landing_pages (id, user_id, public_id, current_data, content_hash)
      SELECT gen_random_uuid(), ${planner.user.id}, 'p' || n, '[]', 'x'
      FROM generate_series(1, ${MAX_SCHEDULES - 3}) n RETURNING id, user_id
    )
    INSERT INTO landing_page_schedules (page_id, user_id, unpublish_at, author_type, author_name)
    SELECT id, user_id, now() + interval '1 day', 'user', 'x' FROM pages`
  )
  const put = async (id: string) =>
    (await send('PUT', urlOf(id, '/schedule'), { publish_at: null, unpublish_at: LATER }, {}, planner))
      .statusCode
  const statuses = await Promise.all(pages.map(async ({ id }) => await put(id)))
  t.same(statuses.toSorted(), [200, 200, 200, 422, 422, 422, 422, 422])
  const scheduled = pages[statuses.indexOf(200)]
  t.equal(await put(scheduled?.id ?? ''), 200, 'the schedule of a page can be replaced')
})

t.test('a write that meets the schedule changes no draft', async (t) => {
  for (let round = 0; round < 40; round++) {
    const { id } = await createPage(app, owner, '{"v":1}')
    await send('PUT', urlOf(id, '/draft'), '{"v":2}')
    const [set, , discarded] = await Promise.all([
      schedule(id, TOMORROW),
      send('PUT', urlOf(id, '/draft'), `{"v":3,"round":${round}}`),
      send('DELETE', urlOf(id, '/draft')),
      ...round % 2 === 0 ? [send('POST', urlOf(id, '/publish'))] : []
    ])
    const { draft, publish_at: publishAt } = (await send('GET', urlOf(id, '/publication'))).json()
    if (publishAt !== null && draft === null) t.fail('a publication without a draft')
    if (publishAt !== null) {
      const etag = draft.etag
      t.equal((await send('PUT', urlOf(id, '/draft'), '{"v":4}')).statusCode, 409)
      t.equal((await send('GET', urlOf(id, '/draft'))).headers.etag, etag)
    }
    t.ok([200, 422].includes(set?.statusCode as number) &&
      [204, 404, 409].includes(discarded?.statusCode as number))
  }
})

t.test('after an outage, changes are made once, in their order', async (t) => {
  const pages = []
  for (let index = 0; index < 12; index++) pages.push(await createPage(app, owner, `[${index}]`))
  for (const { id } of pages) await send('POST', urlOf(id, '/unpublish'))
  const [first, last] = [pages[0] as typeof pages[0], pages.at(-1) as typeof pages[0]]
  for (const { id } of pages) await schedule(id, TOMORROW, id === first.id ? LATER : null)
  // The last one is due first. Both times of the first one have passed.
  await query(
    database,
    `UPDATE landing_page_schedules SET publish_at = now() - interval '1 hour' *
    (SELECT count(*) FROM landing_page_schedules earlier WHERE earlier.page_id <= landing_page_schedules.page_id
      AND publish_at IS NOT NULL), unpublish_at = CASE WHEN unpublish_at IS NOT NULL THEN now() - interval '1 ms' END
    WHERE publish_at IS NOT NULL AND user_id = ${owner.user.id}`
  )
  await until(async () => await read(last.public_id) !== 404 && (await history(first.id)).length === 4)
  const times = []
  for (const { id } of pages.toReversed()) {
    await until(async () => (await scheduleOf(id)).publish_at === null)
    const versions = await history(id)
    t.same(
      versions.map(({ published }) => published),
      id === first.id ? [false, true, false, true] : [true, false, true]
    )
    times.push(versions.find(({ scheduled, published }) => scheduled && published)?.created_at as string)
  }
  t.same(times, times.toSorted(), 'in their order')
})

t.test('slow changes of an account delay no other account', async (t) => {
  const busy = await signUp(app)
  const calm = await createPage(app, owner, '{"v":1}')
  const pages = []
  for (let index = 0; index < 3; index++) pages.push(await createPage(app, busy, '{"v":1}'))
  const { client } = await openTransaction(t, database)
  await client.query('SELECT FROM landing_pages WHERE id = $1 FOR NO KEY UPDATE', [pages[0]?.id])
  await query(
    database,
    `INSERT INTO landing_page_schedules (page_id, user_id, unpublish_at, author_type, author_name)
    SELECT id, user_id, now() - interval '1 s' + row_number() OVER (ORDER BY id = '${calm.id}', id) * interval '1 ms',
      'user', 'x'
    FROM landing_pages WHERE user_id = ${busy.user.id} OR id = '${calm.id}'`
  )
  await until(async () => await read(calm.public_id) === 404, 'the other account is on time')
  for (const page of pages) t.equal(await read(page.public_id), '{"v":1}', 'in their order')
  await client.query('COMMIT')
  for (const page of pages) await until(async () => await read(page.public_id) === 404)
})

t.test('a change that fails delays no other page of its account', async () => {
  const broken = await createPage(app, owner, '{"v":1}')
  await query(
    database,
    `CREATE SEQUENCE attempts;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM nextval('attempts'); RAISE 'broken'; END $$;
    CREATE TRIGGER broken BEFORE UPDATE ON landing_pages FOR EACH ROW WHEN (OLD.id = '${broken.id}')
      EXECUTE FUNCTION fail()`
  )
  const attempts = async () => (await query(database, 'SELECT last_value FROM attempts'))[0]?.last_value
  const makeDue = async (id: string) => {
    await schedule(id, null, TOMORROW)
    await query(database, `UPDATE landing_page_schedules SET unpublish_at = now() WHERE page_id = '${id}'`)
  }
  await makeDue(broken.id)
  await until(async () => {
    const before = await attempts()
    const { id, public_id: publicId } = await createPage(app, owner, '{"v":1}')
    await makeDue(id)
    await until(async () => await read(publicId) === 404)
    return before !== '1' && await attempts() === before
  }, 'a change between two attempts at the broken page, which was due earlier')
  await query(database, 'DROP TRIGGER broken ON landing_pages')
  await until(async () => await read(broken.public_id) === 404)
})
