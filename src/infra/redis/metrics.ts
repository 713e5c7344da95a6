import { Histogram, type Registry } from 'prom-client'
import { addCounter, addGauge } from '../telemetry/metrics.ts'
import type { QueryHook } from '../telemetry/query-hook.ts'
import type { RedisClient } from './redis-client.ts'

/** In seconds. The time limit of a command is 0.2 s. */
const BUCKETS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2]

/** Returns a hook that measures the duration of commands. */
export function measureCommands (registry: Registry): QueryHook {
  const seconds = new Histogram({
    name: 'landfall_redis_command_duration_seconds',
    help: 'Duration of Redis commands, including failed ones; a pipeline counts as one command',
    buckets: BUCKETS,
    registers: [registry]
  })
  return () => {
    const startedAt = performance.now()
    return () => seconds.observe((performance.now() - startedAt) / 1000)
  }
}

/** Adds metrics of the state of the client. */
export function measureClient (registry: Registry, client: RedisClient): void {
  addGauge(registry, {
    name: 'landfall_limits_shared',
    help: '1: limits are counted in Redis for all replicas. 0: each process counts separately',
    aggregator: 'min'
  }, () => client.reachable ? 1 : 0)
  addGauge(registry, {
    name: 'landfall_invalidation_channel_up',
    help: '1: the process receives messages about the writes of other replicas. 0: it does not',
    aggregator: 'min'
  }, () => client.subscribed ? 1 : 0)
  addCounter(registry, {
    name: 'landfall_redis_outages_total',
    help: 'Times that the circuit breaker opened because Redis failed or was too slow'
  }, () => client.outages)
}
