import { PreconditionFailedError, type Revision } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Time } from '../../components/format.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { isMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { takeFirst } from '../../core/take-first.ts'
import { ChangedSinceError, tagOfUnpublished } from './edited-document.ts'
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
  const { published, version: newest } = editing.publication
  const { data, error, isLoading, reload } = useLoad(
    async (signal) => await load(id, count, signal),
    [id, count, newest]
  )
  const [compared, setCompared] = useState<ComparedVersions>()
  const current = data?.shown[0]
  const restoring = useAction(async ({ version }: Revision) => {
    if (current === undefined) return
    try {
      const ifMatch = published ? current.etag : await tagOfUnpublished(id, current.etag)
      const restored = await landfall.landingPages.restoreRevision(id, version, { ifMatch })
      announce(`Restored version ${version} as version ${restored.version}.` +
        (published ? ' Visitors see it now.' : '') +
        (editing.kind === 'draft' ? ' The draft is still in the editor.'
          : editing.isChanged ? ' Your unsaved changes are still in the editor.' : ''))
      setCompared(undefined)
    } finally {
      reload()
      await editing.refresh().catch(() => {})
    }
  })
  return (
    <section aria-label='History'>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the versions …</p>}
      {data?.shown.length === 1 && <p class='quiet'>Each time you save, a version is added here.</p>}
      <ol class='versions' aria-busy={isLoading}>
        {data?.shown.map((revision, index) => (
          <Version
            revision={revision}
            current={current}
            before={data.shown[index + 1] ?? data.next}
            onCompare={setCompared}
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
          isPublished={published}
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
  if (error instanceof ChangedSinceError && error.published) {
    return new Error('Not restored: the page was published in the meantime. ' +
      'Restore it again to show it to visitors.')
  }
  if (error instanceof PreconditionFailedError || error instanceof ChangedSinceError) {
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
  readonly onCompare: (compared: ComparedVersions) => void
}

function Version ({ revision, current, before, onCompare }: VersionProps) {
  const { version, created_at: createdAt, author } = revision
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
        {eventsOf(revision, before).map((event) => ` · ${event}`)}
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
              onClick={() => onCompare({ before: revision, after: current, restorable, isRestore: true })}
            >
              Restore
            </Button>
          </>
        )}
      </div>
    </li>
  )
}

/** Returns what made a version, beside a change of the document. */
function eventsOf (
  { restored_from: restoredFrom, published, scheduled }: Revision,
  before: Revision | undefined
): readonly string[] {
  const was = before?.published ?? true
  return [
    ...restoredFrom === null ? [] : [`restored from version ${restoredFrom}`],
    ...published === was ? [] : [published ? 'published' : 'visitors get “Not found”'],
    ...scheduled ? ['as it was scheduled'] : []
  ]
}
