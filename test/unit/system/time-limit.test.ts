import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { timeLimit } from '../../../src/infra/system/time-limit.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

t.test('a time limit still works after a garbage collection', async (t) => {
  const signal = AbortSignal.any([new AbortController().signal, timeLimit(200)])
  const aborted = once(signal, 'abort')
  await sleep(50)
  collectGarbage()
  t.ok(await Promise.race([aborted, sleep(10_000, false, { ref: true })]))
})
