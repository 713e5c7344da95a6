import type { FastifyRequest } from 'fastify'
import type { Registry } from 'prom-client'
import { isDatabaseUnavailable } from '../../../infra/postgres/unavailable.ts'
import type { Asset } from '../../../infra/postgres/generated/prisma/client.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'

const NONE = {
  stored: 0,
  refused: 0,
  too_large: 0,
  disk_full: 0,
  storage_away: 0,
  database_away: 0,
  aborted: 0,
  failed: 0
}

type Result = keyof typeof NONE

const BY_STATUS: Readonly<Record<number, Result>> = {
  413: 'too_large',
  503: 'storage_away',
  507: 'disk_full'
}

/** Wraps the upload handler with metrics. */
export function countUploads (
  registry: Registry,
  upload: (request: FastifyRequest) => Promise<Asset>
): (request: FastifyRequest) => Promise<Asset> {
  const results = { ...NONE }
  let bytes = 0
  let running = 0
  addMetrics(registry, {
    landfall_uploads_total: ['Uploads by their result', () => results, { label: 'result' }],
    landfall_upload_bytes_total: ['Bytes of stored files', () => bytes],
    landfall_uploads_in_flight: ['Uploads that are being received or stored', () => running]
  })
  return async (request) => {
    running++
    try {
      const asset = await upload(request)
      results.stored++
      bytes += Number(asset.byteSize)
      return asset
    } catch (error) {
      results[resultOf(error, request)]++
      throw error
    } finally {
      running--
    }
  }
}

function resultOf (error: unknown, request: FastifyRequest): Result {
  if (isDatabaseUnavailable(error)) return 'database_away'
  const { statusCode } = error as { statusCode?: number }
  // The error of an aborted request is a 400 for a malformed form.
  if (request.raw.destroyed && !request.raw.complete) return 'aborted'
  if (statusCode === undefined) return 'failed'
  return BY_STATUS[statusCode] ?? (statusCode < 500 ? 'refused' : 'failed')
}
