import t from 'tap'
import { testCoherence } from '../faults/coherence.ts'

t.test('in 100,000 operations on three replicas with delays and faults, no read contradicts a write or another read', async (t) =>
  await testCoherence(t, { operations: 100_000 }))
