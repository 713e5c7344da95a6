import { Button } from '../../components/button.tsx'
import { formatBytes } from '../../components/format.tsx'
import { useStore } from '../../core/store.ts'
import { cancelUpload, retryUpload, uploadsStore, type Upload } from './uploads.ts'

/** The files that are on their way, and those that have failed. */
export function UploadList () {
  const uploads = useStore(uploadsStore)
  if (uploads.length === 0) return null
  return (
    <section class='panel uploads' aria-labelledby='uploads'>
      <h2 id='uploads'>Uploads</h2>
      <UploadRows uploads={uploads} />
    </section>
  )
}

/** Uploads with how far they are, or why they have failed. */
export function UploadRows ({ uploads }: { readonly uploads: readonly Upload[] }) {
  return (
    <ul class='uploads__list'>
      {uploads.map((upload) => <UploadRow upload={upload} key={upload.id} />)}
    </ul>
  )
}

function UploadRow ({ upload }: { readonly upload: Upload }) {
  const { file, status, fraction, errors, canRetry } = upload
  return (
    <li class='uploads__row'>
      <p class='uploads__name'>
        <bdi>{file.name}</bdi> <span class='quiet'>{formatBytes(file.size)}</span>
      </p>
      {status === 'failed'
        ? <div class='uploads__error'>{errors.map((text) => <p key={text}>{text}</p>)}</div>
        : (
          <p class='uploads__progress'>
            <progress aria-label={`Upload of ${file.name}`} max={1} value={fraction} />
            <span class='quiet'>{progressText(status, fraction)}</span>
          </p>
        )}
      <span class='uploads__actions'>
        {status === 'failed' && canRetry && (
          <Button
            kind='quiet'
            label={`Try ${file.name} again`}
            onClick={() => retryUpload(upload)}
          >
            Try again
          </Button>
        )}
        <Button
          kind='quiet'
          label={`${status === 'failed' ? 'Dismiss' : 'Cancel'} ${file.name}`}
          onClick={() => cancelUpload(upload)}
        >
          {status === 'failed' ? 'Dismiss' : 'Cancel'}
        </Button>
      </span>
    </li>
  )
}

function progressText (status: Upload['status'], fraction: number): string {
  if (status === 'waiting') return 'Waiting'
  return fraction < 1 ? `${Math.floor(fraction * 100)} %` : 'Being stored'
}
