import t from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { secondsLeft } from '../../../src/modules/rate-limit/counters.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { until } from '../../helpers/until.ts'

t.test('only a write that changes the page changes updated_at and Last-Modified', async (t) => {
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '100000' })
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const url = `/manage/landing_pages/${page.id}`
  const patch = async (payload: string, headers: Record<string, string> = {}) =>
    await sendAs(app, owner, 'PATCH', url, payload, headers)
  const times = async () => {
    const { created_at: created, updated_at: updated } = (await app.inject({ url, headers: owner.headers }))
      .json()
    return {
      created,
      updated,
      // Left out for a second after a write.
      modified: await until(async () =>
        (await app.inject(`/landing_pages/${page.public_id}`)).headers['last-modified']
      )
    }
  }
  const before = await times()
  t.equal(before.created, before.updated)
  await patch('{}')
  await patch('{"current_data":{"hello":"world"}}')
  await patch('{"current_data":1}')
  await patch('{"current_data":{"no":1}}', { 'if-match': '"other"' })
  t.same(await times(), before)

  const record = (await patch('{"current_data":{"v":2}}')).json()
  const after = await times()
  t.equal(after.created, before.created)
  t.ok(after.updated > before.updated)
  t.equal(record.updated_at, after.updated)
  t.equal(after.modified, new Date(after.updated).toUTCString())
  t.not(after.modified, before.modified)
})

t.test('without Redis, a replica serves an outdated document for at most one second', async (t) => {
  const settings = { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000' }
  const [one, two] = [await buildTestApp(t, settings), await buildTestApp(t, settings)]
  const owner = await signUp(one)
  const page = await createPage(one, owner, '{"v":1}')
  const read = async () => (await two.inject(`/landing_pages/${page.public_id}`)).body
  let now = clock.now()
  replaceClock(t, () => now)
  t.equal(await read(), '{"v":1}')
  await sendAs(one, owner, 'PATCH', `/manage/landing_pages/${page.id}`, { current_data: { v: 2 } })
  now += 1000
  t.equal(await read(), '{"v":2}')
})

t.test('Retry-After has whole seconds, rounded up, and is at least one', async (t) => {
  const cases = [[60_000, 60], [59_001, 60], [1001, 2], [1000, 1], [1, 1], [0, 1], [-5, 1]] as const
  for (const [left, seconds] of cases) {
    t.equal(secondsLeft({ resetAt: 1_000_000 + left }, 1_000_000), seconds, `${left} ms`)
  }
})
