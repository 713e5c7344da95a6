import { href } from '../core/router.ts'

interface MissingNoticeProps {
  readonly what: 'page' | 'asset'
}

/** Tells that the service doesn't have what the screen is about, and where to go instead. */
export function MissingNotice ({ what }: MissingNoticeProps) {
  return (
    <div class='notice notice--error' role='alert'>
      <p>
        This {what} was deleted, or isn’t yours. Go to <a href={href(`${what}s`)}>your {what}s</a>.
      </p>
    </div>
  )
}
