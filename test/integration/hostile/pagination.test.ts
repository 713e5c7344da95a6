import t, { type Test } from 'tap'
import type { LightMyRequestResponse } from 'fastify'
import { upload } from '../../helpers/assets.ts'
import { buildTestApp, createPage, signUp } from '../../helpers/app.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Lists that change while they are read. A record that exists all the time appears exactly once.

const app = await buildTestApp(t, GENEROUS)

interface Kind {
  readonly list: string
  readonly one: string
  readonly create: (account: Awaited<ReturnType<typeof signUp>>, n: number) => Promise<string>
}
const pages: Kind = {
  list: '/manage/landing_pages',
  one: '/manage/landing_pages',
  create: async (account, n) => (await createPage(app, account, `{"n":${n}}`)).id
}
const kinds: Record<string, Kind> = {
  pages,
  summaries: { ...pages, list: '/manage/landing_page_summaries' },
  assets: {
    list: '/assets',
    one: '/assets',
    create: async (account, n) => (await upload(app, account, `file ${n}`)).json().id
  }
}

async function storm (t: Test, { list, one, create }: Kind): Promise<void> {
  const account = await signUp(app)
  const stranger = await signUp(app)
  const steady: string[] = []
  const passing: string[] = []
  // Mixes both kinds, so that deleted records are before, between and after those that stay.
  for (let n = 0; n < 60; n++) (n % 3 === 0 ? passing : steady).push(await create(account, n))
  const walking = new AbortController()
  let changes = 0
  const change = async () => {
    while (!walking.signal.aborted) {
      const gone = passing.shift()
      if (gone !== undefined) {
        const url = `${one}/${gone}`
        t.equal((await app.inject({ method: 'DELETE', url, headers: account.headers })).statusCode, 204)
      }
      passing.push(await create(account, changes++))
      await create(stranger, changes)
    }
  }
  const changing = Promise.all([change(), change()])
  let walks = 0
  for (const limit of [1, 2, 7, 13, 40, 100]) {
    const seen: string[] = []
    let url: string | undefined = `${list}?limit=${limit}`
    while (url !== undefined) {
      const response: LightMyRequestResponse = await app.inject({ url, headers: account.headers })
      t.equal(response.statusCode, 200)
      const items = response.json() as { id: string }[]
      t.ok(items.length <= limit)
      seen.push(...items.map(({ id }) => id))
      url = /^<(\/[^>]*)>; rel="next"$/.exec(String(response.headers.link ?? ''))?.[1]
    }
    t.equal(new Set(seen).size, seen.length, 'no record appears twice')
    t.same(
      seen.filter((id) => steady.includes(id)),
      steady.toReversed(),
      `limit ${limit}: records that stay appear once, newest first`
    )
    t.same(seen, seen.toSorted().reverse())
    walks++
  }
  walking.abort()
  await changing
  t.ok(changes > walks, `${changes} changes in ${walks} walks`)
}

for (const [name, kind] of Object.entries(kinds)) {
  t.test(`${name}: a walk through the list returns each lasting record once while others come and go`, async (t) =>
    await storm(t, kind))
}

t.test('many lists of one account are read one by one', async (t) => {
  const app = await buildTestApp(t, GENEROUS)
  const account = await signUp(app)
  const other = await signUp(app)
  await createPage(app, account, '{}')
  const list = async ({ headers }: typeof account) =>
    await app.inject({ url: '/manage/landing_pages', headers })
  const database = app.config.DATABASE_URL as string
  const locker = await openTransaction(t, database)
  await locker.client.query('LOCK TABLE landing_pages')
  let answered = 0
  const lists = Array.from({ length: 110 }, async () => {
    const { statusCode } = await list(account)
    answered++
    return statusCode
  })
  t.equal(await untilBlocked(database, 1), 1)
  const ofOther = list(other)
  t.equal(await untilBlocked(database, 2), 2, 'one list of each account')
  await until(() => answered === 9, 'those beyond a hundred that wait are refused')
  await locker.client.query('ROLLBACK')
  const statuses = await Promise.all(lists)
  t.equal(statuses.filter((status) => status === 200).length, 101)
  t.equal(statuses.filter((status) => status === 503).length, 9)
  t.equal((await ofOther).statusCode, 200)
})
