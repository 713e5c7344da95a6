import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'

// Keeps V8 from slowing down the event loop. Every entry point imports this file first.

// Keeps one process.nextTick object alive. If a full garbage collection finds none, V8 discards their hidden
// class, and all later ticks are slow (bench/README.md).
const kept: object[] = []
process.nextTick(() => {
  kept.push(executionAsyncResource())
})

// Marks the old generation on the main thread, in short steps. V8's marking threads compete with the event
// loop where no core is free, and a full collection then delays reads by 30 to 60 ms (bench/README.md).
setFlagsFromString('--no-concurrent-marking')
