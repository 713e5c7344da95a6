import { executionAsyncResource } from 'node:async_hooks'

// Keeps one process.nextTick object alive. If a full garbage collection finds none, V8 discards their hidden
// class, and all later ticks are slow (bench/README.md). Every entry point imports this file first.

const kept: object[] = []
process.nextTick(() => {
  kept.push(executionAsyncResource())
})
