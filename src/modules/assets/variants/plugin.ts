import { createRequire } from 'node:module'
import { extname } from 'node:path'
import fp from 'fastify-plugin'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { IsolatedProcess } from '../../../infra/isolated-process/isolated-process.ts'
import type { VariantSettings } from './variant.ts'
import { createBusyError, VariantMaker } from './variant-maker.ts'

/** Processor time for one variant. An AVIF of 20 million pixels takes 2 s. */
const CPU_LIMIT_MS = 15_000
/** Time for one variant: reading the original, making and storing it. */
const TIME_LIMIT_MS = 60_000
/** An idle child process ends, because it holds some 100 MB. */
const IDLE_MS = 30_000
/** Variants that may wait for the child process. */
const MAX_WAITING = 100
const MIB = 1024 * 1024
/** A JPEG of 12 million pixels needs 200 MiB, one of 50 million up to 640 MiB. */
const MIN_MEMORY_MIB = 256
const MAX_MEMORY_MIB = 640
const HEAP_MIB = 64

declare module 'fastify' {
  interface FastifyInstance {
    variants: {
      readonly settings: VariantSettings
      readonly make: VariantMaker['make']
    }
  }
}

/** Makes variants of pictures, unless they are turned off or sharp isn't installed. */
export default fp(async (app) => {
  const { config, log, metrics } = app
  const isPossible = config.IMAGE_WIDTHS.length === 0 || isSharpInstalled()
  if (!isPossible) {
    log
      .warn('pictures get no variants, because the optional packages of sharp are not installed: run npm ' +
        'ci without --omit=optional, or turn variants off with an empty IMAGE_WIDTHS')
  }
  const settings = {
    IMAGE_WIDTHS: isPossible ? config.IMAGE_WIDTHS : [],
    IMAGE_MAX_PIXELS: config.IMAGE_MAX_PIXELS
  }
  const process = new IsolatedProcess({
    script: new URL(`./picture-worker${extname(import.meta.url)}`, import.meta.url),
    memoryMib: memoryLimit(config.WEB_CONCURRENCY),
    heapMib: HEAP_MIB,
    priority: 'idle',
    cpuLimitMs: CPU_LIMIT_MS,
    timeLimitMs: TIME_LIMIT_MS,
    idleMs: IDLE_MS,
    maxWaiting: MAX_WAITING,
    createRefusal: createBusyError
  })
  const maker = new VariantMaker(app, process, settings)
  app.decorate('variants', { settings, make: async (name, address) => await maker.make(name, address) })
  app.addHook('onClose', async () => maker.close())
  addMetrics(metrics, {
    landfall_variants_total: ['Variants of pictures by their result', () => maker.counts, {
      label: 'result'
    }],
    landfall_variants_queued: ['Variants that wait for the child process', () => process.waiting]
  })
}, { name: 'variants', dependencies: ['database', 'file-store', 'redis', 'metrics'] })

/**
 * Returns the memory of a child process, in MiB: half of the container's, divided among the workers of the
 * service, each of which has such a process.
 */
function memoryLimit (workers: number): number {
  const available = process.constrainedMemory() / MIB || Infinity
  return Math.round(Math.min(MAX_MEMORY_MIB, Math.max(MIN_MEMORY_MIB, available / 2 / workers)))
}

/** Tells whether a binary of sharp for this machine is there, without loading it. */
function isSharpInstalled (): boolean {
  const { resolve } = createRequire(import.meta.resolve('sharp'))
  const { platform, arch } = process
  return [`${platform}-${arch}`, `${platform}musl-${arch}`, 'wasm32'].some((name) => {
    try {
      return resolve(`@img/sharp-${name}/package`) !== ''
    } catch {
      return false
    }
  })
}
