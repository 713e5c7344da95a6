import { formatNumber } from '../components/format.tsx'
import { href } from '../core/router.ts'
import { useStore } from '../core/store.ts'
import { uploadsStore, type Upload } from '../screens/assets/uploads.ts'

/** How far the uploads are, on every screen. It leads to their list. */
export function UploadsStatus () {
  const uploads = useStore(uploadsStore)
  if (uploads.length === 0) return null
  return <a class='header__uploads' href={href('assets')}>{statusText(uploads)}</a>
}

function statusText (uploads: readonly Upload[]): string {
  const running = uploads.filter(({ status }) => status !== 'failed')
  const count = formatNumber(running.length || uploads.length)
  const files = count === '1' ? 'file' : 'files'
  if (running.length === 0) return `${count} ${files} not uploaded`
  const sum = (sizeOf: (upload: Upload) => number) =>
    running.reduce((total, upload) => total + sizeOf(upload), 0)
  const sent = sum(({ file, fraction }) => file.size * fraction) / Math.max(1, sum(({ file }) => file.size))
  return `Uploading ${count} ${files}, ${Math.floor(sent * 100)} %`
}
