import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import sharp from 'sharp'
import type { Test } from 'tap'
import type { Account } from './app.ts'
import { upload } from './assets.ts'
import { childrenOf } from '../shared/child-processes.ts'
import { until } from './until.ts'
import { metadataOf } from '../shared/picture-metadata.ts'

// Uploads pictures and asks for their variants as readers do.

export interface Variant {
  readonly url: string
  readonly width: number
  readonly height: number
  readonly content_type: string
}
export interface Asset {
  readonly id: string
  readonly url: string
  readonly variants: Variant[]
}

export async function store (
  app: FastifyInstance,
  account: Account,
  bytes: Buffer,
  filename?: string
): Promise<Asset> {
  const response = await upload(app, account, bytes, filename)
  if (response.statusCode !== 201) throw new Error(`upload failed: ${response.statusCode} ${response.body}`)
  return response.json()
}

export const ask = async (app: FastifyInstance, url: string, remoteAddress = '203.0.113.1') =>
  await app.inject({ url: new URL(url).pathname, remoteAddress })

/** Asks again as long as the response is a 503 that says when: a busy machine may take long for a variant. */
export const askPatiently = async (app: FastifyInstance, url: string, remoteAddress?: string) =>
  await until(async () => {
    const response = await ask(app, url, remoteAddress)
    return (response.statusCode !== 503 || response.headers['retry-after'] === undefined) && response
  }, url)

export const readAsset = async (
  app: FastifyInstance,
  { headers }: Pick<Account, 'headers'>,
  { id }: Pick<Asset, 'id'>
): Promise<Asset> => (await app.inject({ url: `/assets/${id}`, headers })).json()

/** The ids of the child processes of this process that make variants. */
export const pictureProcesses = (): number[] =>
  childrenOf(process.pid).filter((pid) => readOf(pid, 'cmdline').includes('picture-worker'))

/** The process may have ended in the meantime. */
function readOf (pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

const SAMPLE_MS = 50

/** What a child process took at most. */
export interface Use {
  memoryMib: number
  /** Processor time. */
  seconds: number
}
/** As the kernel counts processor time. */
const TICKS_PER_SECOND = 100

/** Observes the child processes until the end of a test. */
export function watchProcesses (t: Test): Use {
  const use: Use = { memoryMib: 0, seconds: 0 }
  const timer = setInterval(() => {
    for (const pid of pictureProcesses()) {
      const [, kibibytes] = /^VmHWM:\s*(\d+)/m.exec(readOf(pid, 'status')) ?? []
      use.memoryMib = Math.max(use.memoryMib, Number(kibibytes ?? 0) / 1024)
      // After the name, which may contain spaces, utime is the 12th field and stime the 13th.
      const [user, system] = readOf(pid, 'stat').replace(/.*\) /s, '').split(' ').slice(11, 13).map(Number)
      use.seconds = Math.max(use.seconds, ((user ?? 0) + (system ?? 0)) / TICKS_PER_SECOND)
    }
  }, SAMPLE_MS)
  t.teardown(() => clearInterval(timer))
  return use
}

/** What became of a picture: `made` if all its variants were made. */
export type Fate = 'made' | 'refused' | 'without variants'

/**
 * Uploads a picture and asks for all its variants, and for others. The responses must be pictures of the
 * listed dimensions and types without metadata, or a 404 after which none are listed. A 503 may come before
 * both.
 */
export async function checkVariants (
  t: Test,
  app: FastifyInstance,
  account: Account,
  picture: Buffer,
  name: string
): Promise<Fate> {
  const asset = await store(app, account, picture, name.replaceAll(/[^\w.]/g, '-'))
  const folder = asset.url.replace(/(\.\w+)?$/, '')
  for (const unlisted of ['w7.webp', 'w320.gif', 'w320.avif', 'w0320.webp', 'w320', 'w-1.png']) {
    const { statusCode } = await ask(app, `${folder}/${unlisted}`)
    if (statusCode !== 404) t.fail(`${name}: ${unlisted} is ${statusCode}`)
  }
  let fate: Fate = asset.variants.length > 0 ? 'made' : 'without variants'
  // The dimensions may turn out to be others when the first variant is made.
  for (let index = 0, { variants } = asset; index < variants.length && fate === 'made'; index++) {
    const { statusCode, body, rawPayload } = await askPatiently(app, (variants[index] as Variant).url)
    variants = (await readAsset(app, account, asset)).variants
    const variant = variants[index]
    if (statusCode === 200 && variant !== undefined) await checkVariant(t, variant, rawPayload, name)
    else if (statusCode === 404 && variants.length === 0) fate = 'refused'
    else t.fail(`${name}: ${statusCode} ${body.slice(0, 200)} ${JSON.stringify(variants)}`)
  }
  return fate
}

async function checkVariant (t: Test, variant: Variant, bytes: Buffer, name: string): Promise<void> {
  const { info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true })
  const { format } = await sharp(bytes).metadata()
  const seen = { width: info.width, height: info.height, content_type: `image/${format}` }
  const { url: _url, ...listed } = variant
  if (JSON.stringify(seen) !== JSON.stringify(listed)) t.same(seen, listed, name)
  const metadata = metadataOf(bytes, variant.content_type)
  if (metadata.length > 0) t.same(metadata, [], `${name}: metadata`)
}
