import type { AssetWithReferences } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { formatBytes, formatNumber, Time } from '../../components/format.tsx'
import { MissingNotice } from '../../components/missing-notice.tsx'
import { Screen } from '../../components/screen.tsx'
import { useLoad } from '../../core/load.ts'
import { isMissing } from '../../core/missing.ts'
import { href, navigate } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { DeleteAsset } from './delete-asset.tsx'
import { Thumbnail } from './thumbnail.tsx'
import { UsingPages } from './using-pages.tsx'

/** One file: what it is, where it is, and which pages use it. */
export function AssetDetails ({ id }: { readonly id: string }) {
  const { data: asset, error, reload } = useLoad(
    async (signal) => await landfall.assets.get(id, { signal }),
    [id]
  )
  const [isDeleting, setIsDeleting] = useState(false)
  return (
    <Screen
      title={asset?.filename ?? 'Asset'}
      actions={asset !== undefined && (
        <Button kind='danger' onClick={() => setIsDeleting(true)}>Delete</Button>
      )}
    >
      <p class='asset-details__back'>
        <a href={href('assets')}>All assets</a>
      </p>
      {isMissing(error) ? <MissingNotice what='asset' />
        : <ErrorNotice error={error} onRetry={reload} retriesItself />}
      {asset !== undefined && <Details asset={asset} />}
      {asset !== undefined && isDeleting && (
        <DeleteAsset
          asset={asset}
          onDeleted={() => navigate('assets')}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </Screen>
  )
}

function Details ({ asset }: { readonly asset: AssetWithReferences }) {
  const { url, content_type: type, byte_size: byteSize, width, height, created_at: createdAt } = asset
  return (
    <div class='asset-details'>
      <div class='asset-details__picture'>
        <Thumbnail asset={asset} sizes='(width < 56rem) 100vw, 36rem' />
      </div>
      <div class='asset-details__facts'>
        <section aria-labelledby='asset-url'>
          <h2 id='asset-url'>URL</h2>
          <UrlRow url={url} what='URL' />
        </section>
        <dl class='asset-details__list'>
          <dt>Type</dt>
          <dd>{type}</dd>
          <dt>Size</dt>
          <dd title={`${formatNumber(byteSize)} bytes`}>{formatBytes(byteSize)}</dd>
          {width !== null && height !== null && (
            <>
              <dt>Dimensions</dt>
              <dd>{width} × {height} pixels</dd>
            </>
          )}
          <dt>Uploaded</dt>
          <dd>
            <Time at={createdAt} />
          </dd>
        </dl>
        <section aria-labelledby='asset-uses'>
          <h2 id='asset-uses'>Used by</h2>
          <UsingPages pages={asset.used_by} />
        </section>
        {asset.variants.length > 0 && <Variants asset={asset} />}
      </div>
    </div>
  )
}

function UrlRow ({ url, what }: { readonly url: string, readonly what: string }) {
  return (
    <p class='asset-details__url'>
      <a href={url} target='_blank' rel='noreferrer'>{url}</a> <CopyButton text={url} what={what} />
    </p>
  )
}

function Variants ({ asset }: { readonly asset: AssetWithReferences }) {
  return (
    <details>
      <summary>Smaller copies</summary>
      <ul class='asset-details__variants'>
        {asset.variants.map(({ url, width, height, content_type: type }) => (
          <li key={url}>
            {width} × {height}, {type}
            <UrlRow url={url} what={`URL of ${width} × ${height}, ${type}`} />
          </li>
        ))}
      </ul>
    </details>
  )
}
