import Fastify from 'fastify'
import t from 'tap'
import { runPeriodically } from '../../../src/infra/system/periodic-task.ts'

t.test('at most one run waits for the run that is under way', async (t) => {
  const app = Fastify()
  t.teardown(async () => await app.close())
  let runs = 0
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const run = runPeriodically(app, { intervalMs: 3_600_000 }, async () => {
    runs++
    await released
  })
  const first = run()
  await Promise.resolve()
  t.equal(runs, 1, 'the first run has begun')
  const later = [run(), run(), run()]
  release()
  await first
  await Promise.all(later)
  t.equal(runs, 2, 'one run has happened for all that were asked for meanwhile')
  await run()
  t.equal(runs, 3)
})
