import { Time } from '../../components/format.tsx'
import type { OtherVersion } from './edited-document.ts'

/** When and by whom a version was saved. */
export function SavedBy ({ saved }: Pick<OtherVersion, 'saved'>) {
  if (saved === undefined) return <>in the meantime</>
  return (
    <>
      <Time at={saved.at} /> by <bdi>{saved.by}</bdi>
    </>
  )
}
