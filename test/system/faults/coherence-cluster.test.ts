import t from 'tap'
import { testCoherence } from './coherence.ts'

// Like coherence.test.ts, on a Redis Cluster whose masters are replaced, killed and flushed.

t.test('no read contradicts another operation while masters fail', async (t) =>
  await testCoherence(t, { operations: 10_000, onCluster: true }))
