// Imported into processes that tests start. V8 would optimise the WebAssembly of the embedded PostgreSQL and
// of Prisma, which costs a short process half of its CPU time.

import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--liftoff-only')
