import t from 'tap'
import { testHistories } from '../../integration/rate-limit/histories.ts'

t.test('in 1,000 random histories of restarts, each client gets exactly its limit', async (t) =>
  await testHistories(t, 1000))
