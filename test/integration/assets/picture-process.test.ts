import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { NoPictureProcessError, PictureProcess,
  PictureProcessError } from '../../../src/modules/assets/variants/picture-process.ts'
import { asJpeg, card, CARD } from '../../shared/pictures.ts'
import { pictureProcesses } from '../../helpers/variants.ts'

// The child process that makes variants, when it doesn't answer.

const TIME_LIMIT_MS = 4000

const bytes = await asJpeg(card())
const task = {
  byteSize: bytes.length,
  contentType: 'image/jpeg',
  original: CARD,
  maxPixels: 1e6,
  width: 40,
  height: 30,
  extension: 'jpg'
} as const

/** Starts a process with a first variant. Returns its id, and what makes another one. */
async function start (t: Test) {
  const picture = new PictureProcess(256, TIME_LIMIT_MS)
  t.teardown(() => picture.close())
  const run = async () =>
    await picture.run(task, Readable.from([bytes]), async (answer) => {
      if (answer.outcome === 'made') { for await (const chunk of answer.bytes) t.ok(chunk.length > 0) }
      return answer.outcome
    })
  t.equal(await run(), 'made')
  return { run, pid: pictureProcesses()[0] as number }
}

t.test('a picture is not blamed when the machine is too slow', async (t) => {
  const { run, pid } = await start(t)
  process.kill(pid, 'SIGSTOP')
  await t.rejects(run(), NoPictureProcessError)
  t.equal(await run(), 'made', 'a new process works')
})

t.test('a picture is blamed when the process ends while it makes a variant', async (t) => {
  const { run, pid } = await start(t)
  process.kill(pid, 'SIGSTOP')
  const running = run()
  await sleep(100)
  process.kill(pid, 'SIGKILL')
  await t.rejects(running, PictureProcessError)
  t.equal(await run(), 'made', 'a new process works')
})
