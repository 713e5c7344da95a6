import { executionAsyncResource } from 'node:async_hooks'

// To be imported before anything else, by each file that a process begins with.
//
// Node calls process.nextTick half a dozen times for a request and each makes a small object. V8 knows the shape of these
// objects only as long as there is one: a full garbage collection that finds none forgets it, and from then on, for the
// rest of the process, each of them takes a slow path. That is not seen in a benchmark of an empty server, which never
// collects its old generation; it costs a service that has started up 6 µs of 30 for each read (bench/README.md). So one
// such object is kept, from the beginning.

const kept: object[] = []
process.nextTick(() => { kept.push(executionAsyncResource()) })
