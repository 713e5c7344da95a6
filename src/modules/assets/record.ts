import type { Static } from '@sinclair/typebox'
import type { Asset } from '../../infra/postgres/generated/prisma/client.ts'
import { contentHash, type Validators } from '../../http/conditional-requests.ts'
import type { AssetReferences } from '../landing-pages/index.ts'
import type { AssetRecord, AssetWithReferences } from './schemas.ts'
import { variantName } from './storage/storage-key.ts'
import { variantsOf, type VariantSettings } from './variants/variant.ts'

export interface RecordSettings extends VariantSettings {
  /** The base URL of the files. */
  readonly urls: string
  /** The base URL of the variants, which the service itself serves. */
  readonly variantUrls: string
}

/** Converts an asset to the form that clients see. */
export const assetRecord = (asset: Asset, settings: RecordSettings): Static<typeof AssetRecord> => ({
  id: asset.id,
  filename: asset.filename,
  content_type: asset.contentType,
  byte_size: Number(asset.byteSize), // MAX_UPLOAD_BYTES keeps it a safe integer
  checksum: asset.checksum,
  width: asset.width,
  height: asset.height,
  url: `${settings.urls}/${asset.storageKey}`,
  variants: variantsOf(asset, settings).map((variant) => ({
    url: `${settings.variantUrls}/${variantName(variant)}`,
    width: variant.width,
    height: variant.height,
    content_type: variant.contentType
  })),
  created_at: asset.createdAt.toISOString()
})

type Record = Static<typeof AssetRecord>
type RecordWithReferences = Static<typeof AssetWithReferences>

/** Adds the pages that use an asset to its record. */
export const withReferences = (
  record: Record,
  { pages }: Pick<AssetReferences, 'pages'>
): RecordWithReferences => ({
  ...record,
  used_by: pages.map(({ id, publicId }) => ({ id, public_id: publicId }))
})

/** No page uses a new asset. */
export const NO_REFERENCES: AssetReferences = { pages: [], count: 0 }

/**
 * Returns the strong entity tag of a record. It changes when the record does, for example when a page uses
 * the asset, or BASE_URL changes.
 */
export const recordTag = (record: RecordWithReferences): string => `"${contentHash(JSON.stringify(record))}"`

/** Returns the validators of a record. The date is that of the file: pages change the record without one. */
export const recordValidators = (record: RecordWithReferences): Validators => (
  { etag: recordTag(record), modifiedAt: new Date(record.created_at) }
)

/** Returns the message for a file that can't be deleted, because pages use it. */
export function describeReferences ({ pages, count }: AssetReferences): string {
  const named = pages.slice(0, MAX_NAMED_PAGES).map(({ publicId }) => publicId)
  const names = named.length < count ? `${named.join(', ')}, …` : named.join(', ')
  return `File is used by ${count === 1 ? '1 page' : `${count} pages`}: ${names}`
}

const MAX_NAMED_PAGES = 10
