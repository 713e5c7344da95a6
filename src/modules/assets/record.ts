import type { Static } from '@sinclair/typebox'
import type { Asset } from '../../infra/postgres/generated/prisma/client.ts'
import { contentHash, type Validators } from '../../http/conditional-requests.ts'
import type { AssetRecord } from './schemas.ts'

/** Converts an asset to the form that clients see. `urls` is the base URL of the files. */
export const assetRecord = (asset: Asset, urls: string): Static<typeof AssetRecord> => ({
  id: asset.id,
  filename: asset.filename,
  content_type: asset.contentType,
  byte_size: Number(asset.byteSize), // MAX_UPLOAD_BYTES keeps it a safe integer
  checksum: asset.checksum,
  width: asset.width,
  height: asset.height,
  url: `${urls}/${asset.storageKey}`,
  created_at: asset.createdAt.toISOString()
})

type Record = Static<typeof AssetRecord>

/** Returns the strong entity tag of a record. It changes when the record does, for example with BASE_URL. */
export const recordTag = (record: Record): string => `"${contentHash(JSON.stringify(record))}"`

export const recordValidators = (record: Record): Validators => ({
  etag: recordTag(record),
  modifiedAt: new Date(record.created_at)
})
