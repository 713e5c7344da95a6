import sharp, { type Metadata, type Sharp } from 'sharp'
import { serveTasks, type HandlerResponse } from '../../../infra/isolated-process/serve-tasks.ts'
import type { Dimensions } from '../upload/orientation.ts'
import type { PictureResult, PictureTask } from './variant.ts'

// The child process that makes variants, one at a time. It is separate from the service, because a hostile
// picture may make sharp use all memory, or crash.

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

sharp.concurrency(1)
sharp.cache(false)
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: LOADERS })

serveTasks({ variant: makeVariant })

async function makeVariant (task: PictureTask, bytes: Buffer): Promise<HandlerResponse<PictureResult>> {
  try {
    const made = await make(task, bytes)
    return Buffer.isBuffer(made) ? { result: { outcome: 'made' }, output: made } : { result: made }
  } catch (error) {
    return { result: problemOf(error as Error) }
  }
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
