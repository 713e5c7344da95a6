import { useEffect, useRef, useState } from 'preact/hooks'
import { formatJson } from '#json-text'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'
import type { ComparedText } from '../../editor/comparison.ts'
import { hasLongLine } from '../../editor/long-lines.ts'
import { checkJson } from '../../json/check.ts'

interface CodeComparisonProps {
  readonly before: ComparedText
  readonly after: ComparedText
  /** Whether white space is ignored at first. It also is if a line is very long. */
  readonly ignoresSpace: boolean
}

/** Below this width, there is one column. */
const COLUMNS = '(min-width: 700px)'
/** Differences in longer lines, in UTF-16 units, are hard to find. */
const READABLE_LINE = 500

/** Shows what differs between two texts. Its code is loaded when it is shown first. */
export function CodeComparison ({ before, after, ignoresSpace }: CodeComparisonProps) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('../../editor/comparison.ts')),
    []
  )
  const parent = useRef<HTMLDivElement>(null)
  const [isComplete, setIsComplete] = useState(false)
  const [isFormatted, setIsFormatted] = useState(() =>
    ignoresSpace || [before, after].some(({ text }) => hasLongLine(text, READABLE_LINE))
  )
  const hasColumns = useMediaQuery(COLUMNS)
  const [beforeText, afterText] = [before, after].map(({ text }) => isFormatted ? formatIfValid(text) : text)
  useEffect(() => {
    if (module === undefined || parent.current === null) return
    return module.createComparison({
      parent: parent.current,
      before: { text: beforeText ?? '', label: before.label },
      after: { text: afterText ?? '', label: after.label },
      layout: hasColumns ? 'columns' : 'unified',
      isComplete
    })
  }, [module, beforeText, afterText, hasColumns, isComplete])
  return (
    <div class='comparison'>
      <ErrorNotice error={error} onRetry={reload} />
      <div class='comparison__bar'>
        <Checkbox label='Ignore white space' isChecked={isFormatted} onChange={setIsFormatted} />
        <Checkbox label='Show all lines' isChecked={isComplete} onChange={setIsComplete} />
        {beforeText === afterText && (
          <p role='status'>
            {before.text === after.text ? 'Both are the same.' : 'Only white space differs.'}
          </p>
        )}
      </div>
      <p class='comparison__labels'>
        <span class='comparison__label comparison__label--before'>− {before.label}</span>
        <span class='comparison__label comparison__label--after'>+ {after.label}</span>
      </p>
      <div class='comparison__texts' ref={parent} aria-busy={module === undefined} />
    </div>
  )
}

const formatIfValid = (text: string): string => checkJson(text) === undefined ? formatJson(text) : text

interface CheckboxProps {
  readonly label: string
  readonly isChecked: boolean
  readonly onChange: (isChecked: boolean) => void
}

function Checkbox ({ label, isChecked, onChange }: CheckboxProps) {
  return (
    <label class='comparison__option'>
      <input
        type='checkbox'
        checked={isChecked}
        onChange={({ currentTarget }) => onChange(currentTarget.checked)}
      />
      {label}
    </label>
  )
}

function useMediaQuery (query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = () => setMatches(list.matches)
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return matches
}
