import { Moment } from './format.tsx'

interface PageStateProps {
  readonly published: boolean
  readonly hasDraft: boolean
  /** Null for never. */
  readonly publishAt: string | null
  readonly unpublishAt: string | null
}

/** The state of a page at a glance. */
export function PageState ({ published, hasDraft, publishAt, unpublishAt }: PageStateProps) {
  return (
    <span class='page-state'>
      <span class={`page-state__part page-state__part--${published ? 'published' : 'unpublished'}`}>
        {published ? 'Published' : 'Unpublished'}
      </span>{' '}
      {hasDraft && <span class='page-state__part page-state__part--draft'>Draft</span>}{' '}
      {publishAt !== null && (
        <span class='page-state__part page-state__part--scheduled'>
          Publishes <Moment at={publishAt} />
        </span>
      )} {unpublishAt !== null && (
        <span class='page-state__part page-state__part--scheduled'>
          Unpublishes <Moment at={unpublishAt} />
        </span>
      )}
    </span>
  )
}
