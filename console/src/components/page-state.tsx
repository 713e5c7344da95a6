interface PageStateProps {
  readonly published: boolean
  readonly hasDraft: boolean
}

/** The state of a page at a glance. */
export function PageState ({ published, hasDraft }: PageStateProps) {
  return (
    <span class='page-state'>
      <span class={`page-state__part page-state__part--${published ? 'published' : 'unpublished'}`}>
        {published ? 'Published' : 'Unpublished'}
      </span>{' '}
      {hasDraft && <span class='page-state__part page-state__part--draft'>Draft</span>}
    </span>
  )
}
