import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import { createLandfallClient, type Asset } from '../packages/client/src/index.ts'
import { childrenOf } from '../test/shared/child-processes.ts'
import { startGuardian } from '../test/shared/guardian.ts'
import { createCluster, startPostgres } from '../test/shared/instances.ts'
import { PHOTO, phonePhoto } from '../test/shared/pictures.ts'
import { MissingProgramError, providePrograms } from '../test/shared/programs.ts'
import { findPinning, pinThisProcess } from './machine.ts'
import { startMeasuredService } from './measured-service.ts'
import { median } from './statistics.ts'

// `npm run bench:pictures`: how fast variants are served and made, and what making them does to public reads.

const ROUNDS = 5
const REQUESTS_PER_ROUND = 400
const PHOTOS = 50
const READS_PER_SECOND = 200
const CALM_MS = 5000
/** Target for the p99 of public reads while fifty variants are made, relative to that without. */
const MAX_RATIO = 2

const print = (line: string): void => {
  process.stdout.write(`${line}\n`)
}

/** In a process of its own: reads a variant for each client until it is made. */
async function readVariants (urls: readonly string[]): Promise<void> {
  process.send?.('ready')
  await once(process, 'message')
  await Promise.all(urls.map(async (url, index) => {
    while (await read(url, `198.51.100.${index}`).catch(() => undefined) === undefined) await sleep(1000)
  }))
  process.disconnect()
}

/** Reads a URL to its end. @returns milliseconds */
async function read (url: string, address = '127.0.0.1'): Promise<number> {
  const started = performance.now()
  const response = await fetch(url, { headers: { 'x-forwarded-for': address } })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`${url} got ${response.status}`)
  return performance.now() - started
}

const percentile = (times: readonly number[], share: number): number =>
  times.toSorted((one, other) => one - other)[Math.floor(times.length * share)] as number

async function main (): Promise<void> {
  const bin = providePrograms(['postgres'], print).postgres
  // Clients and PostgreSQL are usually on other machines: the service and its child process share a core.
  const cores = findPinning()
  if (cores !== undefined) pinThisProcess([cores.rest])
  const guardian = startGuardian()
  const endings: (() => unknown)[] = []
  try {
    const server = await startPostgres(bin, await createCluster(bin, guardian.folder), guardian)
    const service = await startMeasuredService(server.url, guardian, endings, {
      TRUST_PROXY: '127.0.0.0/8'
    }, cores && [cores.server])
    const baseUrl = service.url
    const owner = createLandfallClient({ baseUrl })
    await owner.auth.signUp({ email: 'owner@example.com', password: 'correct horse battery' })
    const { public_id: publicId } = await owner.landingPages.create({ text: 'x'.repeat(2000) })

    print(`uploading ${PHOTOS} photos of ${PHOTO.width} x ${PHOTO.height} pixels …`)
    const photo = await phonePhoto()
    const upload = async (bytes: Buffer) => await owner.assets.upload(new Blob([new Uint8Array(bytes)]))
    const assets: Asset[] = []
    for (let n = 0; n < PHOTOS; n++) assets.push(await upload(photo))
    const urls = (width: number) =>
      assets.map(({ variants }) => {
        const variant = variants.find((each) => each.width === width && each.content_type === 'image/webp')
        return baseUrl + new URL(variant?.url as string).pathname
      })

    await compareMaking(photo, urls(320))
    await compareServing(
      urls(320)[0] as string,
      async (bytes) => baseUrl + new URL((await upload(bytes)).url).pathname
    )
    const page = `${baseUrl}/landing_pages/${publicId}`
    await comparePublicReads(page, [640, 960, 1280, 1920].map(urls))
    printMemory(service.pid)
  } finally {
    for (const end of endings) await end()
    await guardian.end()
  }
}

/** Makes a variant of each photo, after the first one has started the child process. */
async function compareMaking (photo: Buffer, urls: readonly string[]): Promise<void> {
  const size = { width: 320, height: 427, fit: 'fill' } as const
  sharp.concurrency(1)
  const own: number[] = []
  const plain: number[] = []
  for (const url of urls) {
    own.push(await read(url))
    const started = performance.now()
    await sharp(photo, { autoOrient: true }).resize(size).webp().toBuffer()
    plain.push(performance.now() - started)
  }
  const [ownMs, plainMs] = [median(own.slice(1)) as number, median(plain.slice(1)) as number]
  print(`making a variant of 320 pixels: ${ownMs.toFixed(1)} ms, ${
    (ownMs / plainMs).toFixed(2)
  } times plain sharp (${plainMs.toFixed(1)} ms); the first one, with the start of the child process: ${
    (own[0] as number).toFixed(0)
  } ms`)
}

/** Compares a variant with an uploaded file that has the same bytes. */
async function compareServing (variant: string, upload: (bytes: Buffer) => Promise<string>): Promise<void> {
  const file = await upload(Buffer.from(await (await fetch(variant)).arrayBuffer()))
  const ratios: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const times: [number[], number[]] = [[], []]
    for (let n = 0; n < REQUESTS_PER_ROUND; n++) {
      times[0].push(await read(variant))
      times[1].push(await read(file))
    }
    if (round > 0) ratios.push(median(times[0]) as number / (median(times[1]) as number))
  }
  print(`reading a variant that exists: ${
    (median(ratios) as number).toFixed(2)
  } times the time of an uploaded file`)
}

/**
 * Asks for a variant of each photo at once, each for another client, beside public reads at fixed times. Does
 * so for each list of variants, after as many reads without.
 */
async function comparePublicReads (page: string, rounds: readonly (readonly string[])[]): Promise<void> {
  await readSteadily(page, sleep(CALM_MS))
  const measured: { calm: number, busy: number }[] = []
  for (const variants of rounds) {
    // In a process of its own, so that the reads don't wait until these requests are written.
    const clients = fork(import.meta.filename, variants)
    await once(clients, 'message')
    const calm = percentile(await readSteadily(page, sleep(CALM_MS)), 0.99)
    clients.send('begin')
    const busy = percentile(await readSteadily(page, once(clients, 'exit')), 0.99)
    measured.push({ calm, busy })
  }
  const ratio = median(measured.map(({ calm, busy }) => busy / calm)) as number
  print(`public reads while ${PHOTOS} variants are made, ${rounds.length} times: p99 ${
    ratio.toFixed(2)
  } times that without (${
    measured.map(({ calm, busy }) => `${busy.toFixed(1)}/${calm.toFixed(1)}`).join(', ')
  } ms; target ${MAX_RATIO}: ${ratio <= MAX_RATIO ? 'met' : 'missed'})`)
}

async function readSteadily (url: string, until: Promise<unknown>): Promise<number[]> {
  const over = new AbortController()
  const ended = until.finally(() => over.abort())
  const underWay: Promise<number>[] = []
  const started = performance.now()
  while (!over.signal.aborted) {
    underWay.push(read(url))
    await sleep(Math.max(0, started + underWay.length * 1000 / READS_PER_SECOND - performance.now()))
  }
  await ended
  return await Promise.all(underWay)
}

/** Prints the highest resident memory of the service and its child process, as Linux counts it. */
function printMemory (service: number): void {
  if (process.platform !== 'linux') return
  const peak = (pid: number) =>
    Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024)
  print(`most memory: ${peak(service)} MB of the service, ${
    childrenOf(service).map(peak).join(', ')
  } MB of the child process`)
}

const variants = process.argv.slice(2)
try {
  await (variants.length === 0 ? main() : readVariants(variants))
} catch (error) {
  console.error(error instanceof MissingProgramError ? error.message : error)
  process.exitCode = 1
}
