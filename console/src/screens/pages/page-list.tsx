import type { LandingPageSummary } from '@landfall/client'
import { Button } from '../../components/button.tsx'
import { formatBytes, formatNumber, Time } from '../../components/format.tsx'
import { PageState } from '../../components/page-state.tsx'
import { nameOf } from '../../core/labels.ts'
import { href } from '../../core/router.ts'
import { ReadsLine } from './reads-line.tsx'

/** A page with its label, or else its public id, as the name. */
export interface ListedPage extends LandingPageSummary {
  readonly name: string
}

interface PageRowProps {
  readonly page: LandingPageSummary
  readonly onDelete: (page: ListedPage) => void
}

export function PageRow ({ page, onDelete }: PageRowProps) {
  const { id, public_id: publicId, byte_size: byteSize, version, updated_at: updatedAt, reads } = page
  const name = nameOf(page.label, publicId)
  return (
    <li class='page-list__row'>
      <div class='page-list__name'>
        <a class='page-list__link' href={href('pages', id)} title={name}>
          <bdi>{name}</bdi>
        </a>
        <PageState
          published={page.published}
          hasDraft={page.has_draft}
          publishAt={page.publish_at}
          unpublishAt={page.unpublish_at}
        />
      </div>
      <ReadsLine reads={reads} />
      <div class='page-list__facts'>
        <span>
          Changed <Time at={updatedAt} />
        </span>{' '}
        <details class='page-list__details'>
          <summary>
            Details <span class='visually-hidden'>of {name}</span>
          </summary>
          <p>
            Public id: <code class='page-list__id'>{publicId}</code>
          </p>
          {page.key !== null && (
            <p>
              Key: <code class='page-list__id'>{page.key}</code>
            </p>
          )}
          <p>
            Version {formatNumber(version)}, {formatBytes(byteSize)}
          </p>
        </details>
      </div>
      <Button kind='quiet' label={`Delete ${name}`} onClick={() => onDelete({ ...page, name })}>
        Delete
      </Button>
    </li>
  )
}
