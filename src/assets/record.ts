import type { Static } from '@sinclair/typebox'
import type { Asset } from '../generated/prisma/client.ts'
import type { AssetRecord } from './schemas.ts'

/** An asset as clients see it. `urls` is the address that its file is served under. */
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
