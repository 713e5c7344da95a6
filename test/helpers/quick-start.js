// Imported into processes that tests start. They end before optimised code is worth its compilation: V8 would
// spend half of their CPU time on optimising the WebAssembly of the embedded PostgreSQL and of Prisma, and a
// sixth on JavaScript. Functions that are really hot are still optimised.

import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--liftoff-only')
setFlagsFromString('--interrupt-budget=2000000')
