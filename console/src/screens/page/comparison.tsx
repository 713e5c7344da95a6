import { useMemo, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'
import type { ComparedText } from '../../editor/comparison.ts'
import { whyNoFields } from '../../fields/fields-reason.ts'
import { CodeComparison } from './code-comparison.tsx'

interface ComparisonProps {
  readonly before: ComparedText
  readonly after: ComparedText
  /** Whether white space in the code is ignored at first. Default: if a line is very long. */
  readonly ignoresSpace?: boolean
  /** Whether the code is shown at first. */
  readonly isCodeFirst?: boolean
}

/** Shows what differs between two versions: field by field, or in their code. */
export function Comparison (
  { before, after, ignoresSpace = false, isCodeFirst = false }: ComparisonProps
) {
  const [isCode, setIsCode] = useState(isCodeFirst)
  const hasFields = useMemo(
    () => [before, after].every(({ text }) => whyNoFields(text) === undefined),
    [before.text, after.text]
  )
  return (
    <>
      {hasFields && (
        <p class='comparison__switch'>
          <Button kind='quiet' onClick={() => setIsCode(!isCode)}>
            {isCode ? 'Show the changes by field' : 'Show the code'}
          </Button>
        </p>
      )}
      {isCode || !hasFields ? <CodeComparison before={before} after={after} ignoresSpace={ignoresSpace} />
        : <FieldChanges before={before} after={after} />}
    </>
  )
}

type FieldChangesProps = Pick<ComparisonProps, 'before' | 'after'>

/** The fields that differ. The code for it is loaded when it is shown first. */
function FieldChanges ({ before, after }: FieldChangesProps) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('./fields/changes.tsx')),
    []
  )
  if (module === undefined) {
    return error === undefined ? <p class='quiet'>Loading the changes …</p>
      : <ErrorNotice error={error} onRetry={reload} />
  }
  return <module.Changes before={before} after={after} />
}
