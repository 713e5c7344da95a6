import { useFileDrop } from '../../components/file-drop.ts'
import { announce } from '../../core/announcements.tsx'
import { useSettings } from '../../core/settings.ts'
import { upload } from '../assets/uploads.ts'
import type { Editing } from './use-editing.ts'

/**
 * Uploads files that are dropped or pasted anywhere on the screen of a page. If its text is shown, their
 * addresses are inserted at the cursor.
 *
 * @param isShown whether the tab with the document is shown
 */
export function useDroppedFiles (editing: Editing, isShown: boolean): {
  /** Does the same with files that were dropped in the editor. */
  readonly addFiles: (files: readonly File[]) => Promise<void>
  readonly isDragging: boolean
} {
  const { max_upload_bytes: maxBytes } = useSettings()
  const addFiles = async (files: readonly File[]) => {
    // What is dropped on a dialog isn't meant for the text behind it.
    const isInDialog = document.querySelector('dialog[open]') !== null
    const place = isShown && !isInDialog ? editing.views.getEditor()?.keepPlace() : undefined
    const assets = await upload(files, maxBytes)
    if (assets.length === 0 || isInDialog) return
    const count = place?.insertStrings(assets.map(({ url }) => url)) ?? 0
    const choice = editing.views.shown === 'fields' ? 'Replace' : 'Insert an asset'
    announce(sentenceOf(assets.map(({ filename }) => filename), count, choice))
  }
  return { addFiles, isDragging: useFileDrop(addFiles) }
}

/**
 * @param count how many of the files are inserted
 * @param choice the button with which a person chooses the others
 */
function sentenceOf (names: readonly string[], count: number, choice: string): string {
  const [first] = names
  const what = names.length === 1 ? first : `${names.length} files`
  if (count === 0) return `Uploaded: ${what}. Choose ${names.length === 1 ? 'it' : 'them'} with “${choice}”.`
  if (count === names.length) return `Uploaded and inserted: ${what}`
  return `Uploaded: ${what}. Only ${first} is inserted, because there is place for one. ` +
    `Choose the others with “${choice}”.`
}
