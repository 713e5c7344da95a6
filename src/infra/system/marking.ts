import { setFlagsFromString } from 'node:v8'

// Marks the old generation on the main thread, in short steps. V8's marking threads compete with the event
// loop where no core is free, and a full collection then delays reads by 30 to 60 ms (bench/README.md).
setFlagsFromString('--no-concurrent-marking')
