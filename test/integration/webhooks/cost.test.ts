import t from 'tap'
import { buildTestApp, createPage, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { planOf, watchStatements } from '../../helpers/plans.ts'
import { query } from '../../helpers/servers.ts'
import { isBackground, recordUses } from '../../helpers/statements.ts'

// What webhooks cost those that have none, and those that have many messages.

const settings: Record<string, string> = { ...await testSettings(t), WEBHOOKS: 'false' }
const url = settings.DATABASE_URL as string

t.test('without webhooks a write reads one entry of an index more; with ten, a statement follows', async (t) => {
  const app = await buildTestApp(t, settings)
  const account = await signUp(app)
  const page = await createPage(app, account)
  await recordUses(app)
  const runs = watchStatements(app)
  /** Writes the page. @returns the prepared statements */
  const write = async (a: number): Promise<string[]> => {
    const earlier = runs.length
    await sendAs(app, account, 'PATCH', `/manage/landing_pages/${page.id}`, { current_data: { a } })
    return runs.slice(earlier).map(({ statement: { text } }) => text).filter((text) => !isBackground(text))
  }
  const statements = await write(1)
  const { statement, values } = runs.find(({ statement: { text } }) => text.includes('INSERT INTO outbox'))!
  const cost = async (document: string) => {
    const replaced = { ...values, document, contentHash: document }
    const { nodes, buffers } = await planOf(url, statement, replaced, 'force_generic_plan')
    return { buffers, rows: nodes.reduce((sum, { rows }) => sum + rows, 0) }
  }
  await cost('{"warm":1}')
  const before = await cost('{"a":1}')
  await query(
    url,
    `
    INSERT INTO users (email, password_hash) SELECT n || '@example.com', '' FROM generate_series(1, 2000) n;
    INSERT INTO webhooks (id, user_id, slot, url, events) SELECT gen_random_uuid(), id, slot, 'https://example.com',
      ARRAY['page.published'] FROM users, generate_series(1, 10) slot WHERE email LIKE '%@example.com'
      AND password_hash = '';
    ANALYZE webhooks`
  )
  const after = await cost('{"a":2}')
  t.equal(after.rows, before.rows)
  t.ok(after.buffers - before.buffers <= 4, `${after.buffers - before.buffers} pages more`)

  await query(
    url,
    `INSERT INTO webhooks (id, user_id, slot, url, events)
    SELECT gen_random_uuid(), ${account.user.id}, slot, 'https://example.com', ARRAY['page.published']
    FROM generate_series(1, 10) slot`
  )
  t.same((await write(2)).slice(0, -1), statements, 'the last one lets the messages leave')
  const withTen = await cost('{"a":3}')
  t.ok(withTen.buffers - after.buffers <= 10 * 20, `${withTen.buffers - after.buffers} pages more`)
})

t.test('the next message is found without a look at the others of its webhook', async (t) => {
  await query(
    url,
    `
    INSERT INTO outbox (id, target, user_id, page_id, type, due_at, settled_at)
      SELECT gen_random_uuid(), target, 1, gen_random_uuid(), 'page.published', now(), now()
      FROM (VALUES (gen_random_uuid()), (gen_random_uuid())) busy (target), generate_series(1, 20000);
    ANALYZE outbox`
  )
  const app = await buildTestApp(t, settings)
  const runs = watchStatements(app)
  const { claimMessage } = await import('../../../src/modules/webhooks/sending/outgoing-repository.ts')
  const first = await claimMessage(app.database, { webhooks: [], accounts: [] }, false)
  if (first === undefined) throw new Error('no message')
  const { statement } = runs[0]!
  const busy = { busyWebhooks: `{${first.target}}`, busyAccounts: '{}', isCrowded: false }
  const { buffers, nodes } = await planOf(url, statement, busy, 'force_generic_plan')
  t.ok(buffers < 200, `${buffers} pages`)
  t.ok(nodes.every(({ rows }) => rows < 50), JSON.stringify(nodes))
})
