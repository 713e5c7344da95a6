import { PreconditionFailedError, type Revision } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { formatBytes, Time } from '../../components/format.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { isMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { takeFirst } from '../../core/take-first.ts'
import type { Editing } from './use-editing.ts'
import { VersionDialog, type ComparedVersions } from './version-dialog.tsx'

interface HistoryTabProps {
  readonly id: string
  readonly editing: Editing
}

/** Versions that are loaded at once. */
const PART = 30

/** The versions of a page, newest first. */
export function HistoryTab ({ id, editing }: HistoryTabProps) {
  const [count, setCount] = useState(PART)
  const { data, error, isLoading, reload } = useLoad(async (signal) => await load(id, count, signal), [
    id,
    count
  ])
  const [compared, setCompared] = useState<ComparedVersions>()
  const current = data?.shown[0]
  const restoring = useAction(async ({ version }: Revision) => {
    if (current === undefined) return
    try {
      const restored = await landfall.landingPages.restoreRevision(id, version, { ifMatch: current.etag })
      announce(`Restored version ${version} as version ${restored.version}.` +
        (editing.kind === 'draft' ? ' The draft is still in the editor.'
          : editing.isChanged ? ' Your unsaved changes are still in the editor.' : ''))
      setCompared(undefined)
      await editing.refresh()
    } finally {
      reload()
    }
  })
  return (
    <section aria-label='History'>
      <ErrorNotice error={explain(restoring.error)} />
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the versions …</p>}
      {data?.shown.length === 1 && <p class='quiet'>Each time you save, a version is added here.</p>}
      <ol class='versions' aria-busy={isLoading}>
        {data?.shown.map((revision, index) => (
          <Version
            revision={revision}
            current={current}
            before={data.shown[index + 1] ?? data.next}
            // Until the rows are where they stay: a double click must not restore two versions.
            isBusy={restoring.isRunning || isLoading}
            onCompare={setCompared}
            onRestore={(version) => restoring.run(version)}
            key={revision.version}
          />
        ))}
      </ol>
      {data?.next !== undefined && (
        <Button onClick={() => setCount(count + PART)}>
          Show older versions
        </Button>
      )}
      {compared !== undefined && (
        <VersionDialog
          id={id}
          compared={compared}
          isCodeFirst={editing.views.shown === 'text'}
          isRestoring={restoring.isRunning}
          error={explain(restoring.error)}
          onRestore={(version) => restoring.run(version)}
          onClose={() => setCompared(undefined)}
        />
      )}
    </section>
  )
}

/** Loads the versions to show, and the next one, with which the last of them is compared. */
async function load (id: string, count: number, signal: AbortSignal): Promise<{
  shown: readonly Revision[]
  next: Revision | undefined
}> {
  const revisions = landfall.landingPages.revisions(id, { limit: PART, signal })
  const { items } = await takeFirst(revisions, count + 1)
  return { shown: items.slice(0, count), next: items[count] }
}

/** Says what to do when a version can't be restored. */
function explain (error: unknown): unknown {
  if (error instanceof PreconditionFailedError) {
    return new Error('The page was changed in the meantime. Look at its newest version, then restore again.')
  }
  if (isMissing(error)) {
    return new Error('This version, or the whole page, is no longer there.')
  }
  return error
}

interface VersionProps {
  readonly revision: Revision
  readonly current: Revision | undefined
  readonly before: Revision | undefined
  readonly isBusy: boolean
  readonly onCompare: (compared: ComparedVersions) => void
  readonly onRestore: (revision: Revision) => unknown
}

function Version ({ revision, current, before, isBusy, onCompare, onRestore }: VersionProps) {
  const { version, created_at: createdAt, author, byte_size: byteSize, restored_from: restoredFrom } =
    revision
  const isCurrent = revision === current
  const restorable = isCurrent ? undefined : revision
  return (
    <li class='versions__row'>
      <div class='versions__what'>
        <strong>Version {version}</strong>
        {isCurrent && <span class='versions__current'>current</span>}
      </div>
      <div class='versions__who quiet'>
        <Time at={createdAt} />
        {' · '}
        {author.type === 'api_key' ? 'API key ' : ''}
        <bdi>{author.name}</bdi>
        {' · '}
        {formatBytes(byteSize)}
        {restoredFrom !== null && ` · restored from version ${restoredFrom}`}
      </div>
      <div class='versions__actions'>
        {before !== undefined && (
          <Button
            kind='quiet'
            label={`Changes in version ${version}`}
            onClick={() => onCompare({ before, after: revision, restorable })}
          >
            Changes
          </Button>
        )}
        {!isCurrent && current !== undefined && (
          <>
            <Button
              kind='quiet'
              label={`Compare version ${version} with the current one`}
              onClick={() => onCompare({ before: revision, after: current, restorable })}
            >
              Compare with current
            </Button>
            <Button
              kind='quiet'
              label={`Restore version ${version}`}
              isDisabled={isBusy}
              onClick={() => onRestore(revision)}
            >
              Restore
            </Button>
          </>
        )}
      </div>
    </li>
  )
}
