import t from 'tap'
import { testCoherence } from './coherence.ts'

// Like coherence.test.ts, on a Redis Cluster whose masters are replaced, killed and flushed.

t.test('in 10,000 operations on three replicas while masters of a Redis Cluster fail, no read contradicts a write or another read', async (t) =>
  await testCoherence(t, { operations: 10_000, onCluster: true }))
