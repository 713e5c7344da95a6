import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'

/** The webhooks of the account, or one of them. Their code is loaded when they are shown first. */
export function WebhooksPart ({ item }: { readonly item?: string | undefined }) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('./webhooks/webhooks.tsx')),
    []
  )
  if (module !== undefined) return <module.Webhooks id={item} />
  return error === undefined ? <p class='quiet'>Loading the webhooks …</p>
    : <ErrorNotice error={error} onRetry={reload} />
}
