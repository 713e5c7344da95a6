import type { FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { isDatabaseUnavailable } from '../database/unavailable.ts'
import type { Asset } from '../generated/prisma/client.ts'
import { counterOf, gaugeOf } from '../plugins/metrics.ts'

/** What may become of an upload. */
type Result = 'stored' | 'refused' | 'too_large' | 'disk_full' | 'storage_away' | 'database_away' | 'aborted' | 'failed'

const BY_STATUS: Readonly<Record<number, Result>> = { 413: 'too_large', 503: 'storage_away', 507: 'disk_full' }

/** Counts what becomes of uploads, around the function that takes one. */
export function measured (registry: Registry, upload: (request: FastifyRequest) => Promise<Asset>): (request: FastifyRequest) => Promise<Asset> {
  const results: Record<Result, number> = { stored: 0, refused: 0, too_large: 0, disk_full: 0, storage_away: 0, database_away: 0, aborted: 0, failed: 0 }
  let bytes = 0
  let underWay = 0
  counterOf(registry, { name: 'landfall_uploads_total', help: 'Uploads by what became of them' }, () => results, 'result')
  counterOf(registry, { name: 'landfall_upload_bytes_total', help: 'Bytes of the files that were stored' }, () => bytes)
  gaugeOf(registry, { name: 'landfall_uploads_in_flight', help: 'Uploads that are being received or stored' }, () => underWay)
  return async (request) => {
    underWay++
    try {
      const asset = await upload(request)
      results.stored++
      bytes += Number(asset.byteSize)
      return asset
    } catch (error) {
      results[resultOf(error, request)]++
      throw error
    } finally {
      underWay--
    }
  }
}

function resultOf (error: unknown, request: FastifyRequest): Result {
  if (isDatabaseUnavailable(error)) return 'database_away'
  const { statusCode } = error as { statusCode?: number }
  // A client that hangs up makes its form a malformed one.
  if (request.raw.destroyed && !request.raw.complete) return 'aborted'
  if (statusCode === undefined) return 'failed'
  return BY_STATUS[statusCode] ?? (statusCode < 500 ? 'refused' : 'failed')
}
