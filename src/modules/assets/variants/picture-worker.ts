import { writeFile } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import type { Metadata, Sharp } from 'sharp'
import type { Dimensions } from '../upload/upright.ts'
import type { PictureResult, PictureTask } from './picture-task.ts'

// The child process that makes variants, one at a time. It is separate from the service, because a hostile
// picture may make sharp use all memory, or crash.

/** Processor time for one variant. An AVIF of 20 million pixels takes 2 s. */
const MAX_CPU_MS = 15_000
const CPU_CHECK_MS = 500
/** Decoded size of an original, of one frame. */
const MAX_DECODED_BYTES = 256 * 1024 * 1024

/** sharp's name of a format, by content type. Another format in the file is not decoded. */
const FORMATS: Readonly<Record<string, string>> = {
  'image/jpeg': 'jpeg',
  'image/png': 'png',
  'image/webp': 'webp',
  'image/gif': 'gif',
  'image/avif': 'heif'
}
const LOADERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Heif'].map((name) => `VipsForeignLoad${name}`)

const SAMPLE_BYTES: Readonly<Record<string, number>> = { uchar: 1, char: 1, ushort: 2, short: 2 }
const MAX_SAMPLE_BYTES = 8

/** Ends this process at once; `process.exit` would wait for the picture that is being decoded. */
const end = (): boolean => process.kill(process.pid, 'SIGKILL')

process.on('disconnect', end)
// Ctrl-C reaches all processes of a terminal. The service ends this one when it has finished its requests.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {})
try {
  setPriority(constants.priority.PRIORITY_LOW)
} catch {
  // A filter of system calls forbids it. Variants are made all the same.
}
// If memory runs out, Linux ends this process and not the service.
await writeFile('/proc/self/oom_score_adj', '1000').catch(() => {})

const { default: sharp } = await import('sharp')
sharp.concurrency(1)
sharp.cache(false)
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: LOADERS })

process.on('message', (task: PictureTask) => {
  run(task).catch((error: unknown) => {
    console.error(error)
    process.exit(1)
  })
})
process.send?.('ready')

async function run (task: PictureTask): Promise<void> {
  const bytes = await readInput(task.byteSize)
  const stopTimer = limitProcessorTime()
  let variant: Buffer | undefined
  let result: PictureResult
  try {
    const made = await make(task, bytes)
    if (Buffer.isBuffer(made)) variant = made
    result = Buffer.isBuffer(made) ? { outcome: 'made', byteSize: made.length } : made
  } catch (error) {
    result = problemOf(error as Error)
  }
  stopTimer()
  process.send?.(result)
  if (variant !== undefined) process.stdout.write(variant)
}

async function readInput (byteSize: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(byteSize)
  let received = 0
  for await (const chunk of process.stdin.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    received += chunk.copy(bytes, received)
    if (received === byteSize) break
  }
  return bytes
}

/** Ends the process when a task has used too much processor time. The parent counts that as a failure. */
function limitProcessorTime (): () => void {
  const start = process.cpuUsage()
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(start)
    if ((user + system) / 1000 > MAX_CPU_MS) end()
  }, CPU_CHECK_MS)
  return () => clearInterval(timer)
}

async function make (task: PictureTask, bytes: Buffer): Promise<Buffer | PictureResult> {
  // 'error' and not 'warning', because some cameras write files that cause warnings.
  const picture = sharp(bytes, { limitInputPixels: task.maxPixels, failOn: 'error', autoOrient: true })
  const metadata = await picture.metadata()
  if (metadata.format !== FORMATS[task.contentType]) {
    return { outcome: 'unreadable', reason: `the format is ${metadata.format}` }
  }
  if (decodedBytes(metadata) > MAX_DECODED_BYTES) return { outcome: 'too_large', reason: 'too many bytes' }
  const original = metadata.autoOrient
  if (!isSame(original, task.original)) return { outcome: 'mismatch', original }
  // By default, sharp converts 16 bits with a profile to Display P3, and then takes them for sRGB.
  if (metadata.space === 'rgb16' && metadata.hasProfile) picture.pipelineColourspace('srgb')
  picture.resize({ width: task.width, height: task.height, fit: 'fill' }).toColourspace('srgb')
  return await encode(picture, task.extension).toBuffer()
}

/** By default, sharp leaves out all metadata, after it has applied the orientation and the colour profile. */
function encode (picture: Sharp, extension: PictureTask['extension']): Sharp {
  switch (extension) {
    case 'jpg':
      return picture.jpeg()
    case 'png':
      return picture.png()
    default:
      return picture.webp()
  }
}

const decodedBytes = ({ width, height, channels, depth }: Metadata): number =>
  width * height * channels * (SAMPLE_BYTES[depth] ?? MAX_SAMPLE_BYTES)

const isSame = (one: Dimensions, other: Dimensions): boolean =>
  one.width === other.width && one.height === other.height

/** sharp's errors have no codes. */
function problemOf ({ message }: Error): PictureResult {
  const reason = message.slice(0, 200)
  if (/exceeds pixel limit/i.test(message)) return { outcome: 'too_large', reason }
  // Encoders don't say that memory ran out. What they get was decoded, so the picture is readable.
  const isCostly = /memory|allocat|save/i.test(message)
  return { outcome: isCostly ? 'too_costly' : 'unreadable', reason }
}
