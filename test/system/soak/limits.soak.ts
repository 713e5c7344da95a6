import t from 'tap'
import { testHistories } from '../../integration/rate-limit/histories.ts'

t.test('in random histories of restarts, each client gets exactly its limit', async (t) =>
  await testHistories(t, 10_000, Number(process.env.SOAK_SECONDS) || 600))
