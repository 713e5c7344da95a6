import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { statuses } from '../../helpers/readers.ts'
import { expectCoherentReads, meanwhile, startReplicas, untilHearing,
  untilShared } from '../../helpers/redis-replicas.ts'
import { slackMs } from '../../helpers/slack.ts'

// Partial failures between the replicas and Redis, and when the replicas get each other's writes.

const { one, two, hot, cold, create, readers } = await startReplicas(t)
const both = [one, two]
const pages = [hot, ...cold]

t.test('a lost channel is detected while commands still work', async (t) => {
  const reads = await readers.during(async () => {
    await meanwhile(
      async () => {
        two.proxy.blackhole(/subscribe/i)
        const foundMs = await untilHearing([two], false)
        t.ok(foundMs < 1500 + slackMs(), `found within ${foundMs} ms`)
        t.equal(await two.metric('landfall_limits_shared'), 1, 'commands still work')
        t.equal(
          await one.metric('landfall_invalidation_channel_up'),
          1,
          'the other replica still gets messages'
        )
        await sleep(3000)
        // A connection that is subscribing during the fault stays dead, too.
        await two.proxy.restore({ forget: true })
        const backMs = await untilHearing([two], true)
        t.ok(backMs < 2000 + slackMs(), `back within ${backMs} ms`)
      },
      async () => await hot.write(one.url),
      100
    )
    await sleep(200)
  })
  expectCoherentReads(t, reads, pages)
})

t.test('a replica that reconnects first serves no old copy', async (t) => {
  const [changed, doomed] = [await create(), await create()]
  for (const page of [changed, doomed]) t.equal((await page.read(two.url)).version, 1)
  for (const { proxy } of both) await proxy.refuse()
  await untilShared(both, false)
  t.equal((await changed.write(one.url)).status, 200)
  t.equal((await doomed.remove(one.url)).status, 204)

  await two.proxy.restore()
  await untilShared([two], true)
  t.equal(await one.metric('landfall_limits_shared'), 0, 'the writer has not published yet')
  t.equal((await changed.read(two.url)).version, 2)
  t.equal((await doomed.read(two.url)).status, 404)

  t.equal((await changed.write(two.url)).status, 200)
  const reads = await readers.during(async () => {
    await one.proxy.restore()
    await untilShared([one], true)
    await untilHearing([one], true)
    for (let n = 0; n < 20; n++) {
      for (const { url } of both) {
        t.equal((await changed.read(url)).version, 3, 'the unpublished version has been replaced')
        t.equal((await doomed.read(url)).status, 404)
      }
    }
  })
  t.same(Object.keys(statuses(reads)), ['200'])
})
