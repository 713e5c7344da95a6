import type { RefObject } from 'preact'
import { Button } from '../../components/button.tsx'
import { formatBytes, Time } from '../../components/format.tsx'
import { href } from '../../core/router.ts'
import { ReadsLine } from './reads-line.tsx'
import type { ListedPage } from './summaries.ts'

interface PageListProps {
  readonly pages: readonly ListedPage[]
  readonly listRef: RefObject<HTMLUListElement | null>
  readonly onDelete: (page: ListedPage) => void
}

export function PageList ({ pages, listRef, onDelete }: PageListProps) {
  return (
    <ul class='page-list' ref={listRef}>
      {pages.map((page) => <PageRow page={page} onDelete={onDelete} key={page.id} />)}
    </ul>
  )
}

interface PageRowProps {
  readonly page: ListedPage
  readonly onDelete: (page: ListedPage) => void
}

function PageRow ({ page, onDelete }: PageRowProps) {
  const { id, public_id: publicId, name, byte_size: byteSize, version, updated_at: updatedAt, reads } = page
  return (
    <li class='page-list__row'>
      <div class='page-list__name'>
        <a class='page-list__link' href={href('pages', id)} title={name}>
          <bdi>{name}</bdi>
        </a>
        <code class='page-list__id' title='The public id, by which readers find the page'>{publicId}</code>
      </div>
      <ReadsLine reads={reads} />
      <p class='page-list__facts'>
        <span>
          Changed <Time at={updatedAt} />
        </span>{' '}
        <span>
          Version {version.toLocaleString()}, {formatBytes(byteSize)}
        </span>
      </p>
      <Button kind='quiet' label={`Delete ${name}`} onClick={() => onDelete(page)}>Delete</Button>
    </li>
  )
}

const SKELETON_ROWS = 6

/** Holds the place of the list while it is loaded. */
export function PageListSkeleton () {
  return (
    <div role='status'>
      <span class='visually-hidden'>The pages are being loaded.</span>
      <ul class='page-list' aria-hidden='true'>
        {Array.from(
          { length: SKELETON_ROWS },
          (_, index) => <li class='page-list__row page-list__row--skeleton' key={index} />
        )}
      </ul>
    </div>
  )
}
