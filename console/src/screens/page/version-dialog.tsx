import type { Revision } from '@landfall/client'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { Comparison } from './comparison.tsx'

/** Two versions, the older one first. */
export interface ComparedVersions {
  readonly before: Revision
  readonly after: Revision
  /** The one that the person looks at, unless it is the current one. */
  readonly restorable: Revision | undefined
  /** Whether the person wants to restore it. */
  readonly isRestore?: boolean
}

interface VersionDialogProps {
  readonly id: string
  readonly compared: ComparedVersions
  readonly isCodeFirst: boolean
  readonly isPublished: boolean
  readonly isRestoring: boolean
  readonly error: unknown
  readonly onRestore: (revision: Revision) => unknown
  readonly onClose: () => void
}

/** Shows what differs between two versions. */
export function VersionDialog (
  { id, compared, isCodeFirst, isPublished, isRestoring, error, onRestore, onClose }: VersionDialogProps
) {
  const { before, after, restorable, isRestore = false } = compared
  const { data: texts = [], error: loadError, isLoading, reload } = useLoad(
    async (signal) =>
      await Promise.all([before, after].map(async ({ version }) =>
        (await landfall.landingPages.getRevision(id, version, { signal })).text
      )),
    [id, before.version, after.version]
  )
  const [beforeText, afterText] = texts
  return (
    <Dialog
      title={isRestore ? `Restore version ${before.version}?`
        : `Version ${before.version} and version ${after.version}`}
      size='large'
      onClose={onClose}
    >
      {isRestore && (
        <p>
          It becomes the newest version{isPublished && ', which visitors see at once'}. The others stay in the
          history.
        </p>
      )}
      <ErrorNotice error={loadError} onRetry={reload} />
      {isLoading && <p class='quiet'>Loading the versions …</p>}
      {beforeText !== undefined && afterText !== undefined && (
        <Comparison
          before={{ text: beforeText, label: `Version ${before.version}` }}
          after={{ text: afterText, label: `Version ${after.version}` }}
          isCodeFirst={isCodeFirst}
        />
      )}
      <ErrorNotice error={error} />
      <Actions>
        <Button onClick={onClose}>Close</Button>
        {restorable !== undefined && (
          <Button
            isBusy={isRestoring}
            onClick={() => onRestore(restorable)}
          >
            Restore version {restorable.version}
          </Button>
        )}
      </Actions>
    </Dialog>
  )
}
