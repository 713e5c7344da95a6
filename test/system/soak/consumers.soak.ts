import t from 'tap'
import { testConsumers } from '../webhooks/consumers.ts'

t.test('in 10,000 writes, every replica has the version of each message', async (t) =>
  await testConsumers(t, 10_000))
