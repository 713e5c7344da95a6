import { mock } from 'node:test'
import t from 'tap'
import { buildTestApp, createPage, senderFor, signUp, testSettings } from '../../helpers/app.ts'
import { planOf, watchStatements } from '../../helpers/plans.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { query } from '../../helpers/servers.ts'

t.test('the next message is found without a look at the others of its webhook', async (t) => {
  const settings: Record<string, string> = { ...await testSettings(t), WEBHOOKS: 'false' }
  const url = settings.DATABASE_URL as string
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

t.test('what an owner asks for is sent soon, however wrong the clock of the process is', async (t) => {
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 })
  t.teardown(() => mock.timers.reset())
  const app = await buildTestApp(t, { ...await testSettings(t), ...RECEIVABLE })
  const owner = await signUp(app)
  const send = senderFor(app, owner)
  await createPage(app, owner)
  const receiver = await startReceiver(t)
  const { id } = (await send('POST', '/webhooks', { url: receiver.url })).json()
  await send('POST', `/webhooks/${id}/test`)
  await receiver.message(1)
  await send('POST', `/webhooks/${id}/sync`)
  await receiver.message(2)
})
