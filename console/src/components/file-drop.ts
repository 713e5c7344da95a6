import { useEffect, useRef, useState } from 'preact/hooks'
import { pastedFiles } from '../editor/pasted-files.ts'

/** The screen, then each open dialog. Files go to the last one. */
const takers: object[] = []

/**
 * Takes files that are dropped or pasted anywhere in the window, unless what is there has taken them. Without
 * it, the browser would open them.
 *
 * @returns whether files are being dragged over the window
 */
export function useFileDrop (onDrop: (files: readonly File[]) => void): boolean {
  const [isOver, setIsOver] = useState(false)
  const latest = useRef(onDrop)
  latest.current = onDrop
  useEffect(() => {
    const taker = {}
    takers.push(taker)
    const isTaker = () => takers.at(-1) === taker
    const over = (event: DragEvent) => {
      if (!isTaker() || event.dataTransfer?.types.includes('Files') !== true) return
      event.preventDefault()
      setIsOver(true)
    }
    const leave = ({ relatedTarget }: DragEvent) => {
      if (relatedTarget === null) setIsOver(false)
    }
    const drop = (event: DragEvent) => {
      setIsOver(false)
      if (!isTaker() || event.defaultPrevented || event.dataTransfer?.types.includes('Files') !== true) return
      event.preventDefault()
      latest.current([...event.dataTransfer.files])
    }
    const paste = (event: ClipboardEvent) => {
      const files = pastedFiles(event)
      if (isTaker() && !event.defaultPrevented && files.length > 0) latest.current(files)
    }
    addEventListener('dragover', over)
    addEventListener('dragleave', leave)
    addEventListener('drop', drop)
    addEventListener('paste', paste)
    return () => {
      takers.splice(takers.indexOf(taker), 1)
      removeEventListener('dragover', over)
      removeEventListener('dragleave', leave)
      removeEventListener('drop', drop)
      removeEventListener('paste', paste)
    }
  }, [])
  return isOver
}
