import t from 'tap'
import { testCoherence } from '../faults/coherence.ts'

t.test('in 100,000 operations with faults no read contradicts another one', async (t) =>
  await testCoherence(t, { operations: 100_000 }))
