import { createRequire } from 'node:module'
import fp from 'fastify-plugin'
import type { Registry } from 'prom-client'
import { addCounter, addGauge } from '../../../infra/telemetry/metrics.ts'
import { memoryLimit, PictureProcess } from './picture-process.ts'
import type { VariantSettings } from './variant.ts'
import { VariantMaker } from './variant-maker.ts'

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
  const { config, database, files, log, redisClient, metrics } = app
  const isPossible = config.IMAGE_WIDTHS.length === 0 || isSharpInstalled()
  if (!isPossible) {
    log
      .warn('pictures get no variants, because the optional packages of sharp are not installed: run npm ci without --omit=optional, or turn variants off with an empty IMAGE_WIDTHS')
  }
  const settings = {
    IMAGE_WIDTHS: isPossible ? config.IMAGE_WIDTHS : [],
    IMAGE_MAX_PIXELS: config.IMAGE_MAX_PIXELS
  }
  const process = new PictureProcess(memoryLimit(config.WEB_CONCURRENCY))
  const maker = new VariantMaker({ database, files, redisClient, log, process, settings })
  app.decorate('variants', { settings, make: async (name, address) => await maker.make(name, address) })
  app.addHook('onClose', async () => maker.close())
  addVariantMetrics(metrics, maker)
}, { name: 'variants', dependencies: ['database', 'file-store', 'redis', 'metrics'] })

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

function addVariantMetrics (metrics: Registry, maker: VariantMaker): void {
  const total = { name: 'landfall_variants_total', help: 'Variants of pictures by their result' }
  addCounter(metrics, total, () => maker.counts, 'result')
  const queued = { name: 'landfall_variants_queued', help: 'Variants that wait for the child process' }
  addGauge(metrics, queued, () => maker.queued)
}
