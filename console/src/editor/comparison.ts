import { MergeView, unifiedMergeView } from '@codemirror/merge'
import { EditorState, Text, type Extension } from '@codemirror/state'
import { EditorView, lineNumbers } from '@codemirror/view'
import { createShadowRoot, exactText, hasInvisible, highlighting, spellInvisible,
  wrapping } from './extensions.ts'

// Loaded when two texts are compared: `await import('../editor/comparison.ts')`.

/** A text with its accessible name. */
export interface ComparedText {
  readonly text: string
  readonly label: string
}

export interface ComparisonOptions {
  readonly parent: Element
  readonly before: ComparedText
  readonly after: ComparedText
  /** Side by side, or one below the other in one column. */
  readonly layout: 'columns' | 'unified'
  /** Whether all lines are shown, not only those around differences. */
  readonly isComplete: boolean
}

/** After this time, a difference is shown less precisely. */
const DIFF_CONFIG = { scanLimit: 1000, timeout: 500 }
const UNCHANGED = { margin: 3, minSize: 8 }

/** Shows what differs between two texts, which can't be changed there. Returns a function that removes it. */
export function createComparison (
  { parent, before, after, layout, isComplete }: ComparisonOptions
): () => void {
  const { root, host, hintId } = createShadowRoot(parent, 'This text is compared with another one.')
  const hasCarriageReturns = ({ text }: ComparedText) => text.includes('\r\n')
  const showsLineEnds = hasCarriageReturns(before) !== hasCarriageReturns(after)
  const unchanged = isComplete ? {} : { collapseUnchanged: UNCHANGED }
  const extensionsOf = ({ text, label }: ComparedText): Extension[] => [
    exactText(showsLineEnds),
    highlighting,
    wrapping(text),
    lineNumbers(),
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({
      'aria-label': label,
      'aria-describedby': hintId,
      'aria-readonly': 'true',
      tabindex: '0'
    })
  ]
  // In one column, CodeMirror shows removed lines as they are, even if they hide or reorder characters.
  const isSpelled = hasInvisible(before.text)
  const spell = (text: string) => isSpelled ? spellInvisible(text, showsLineEnds) : text
  const view = layout === 'columns'
    ? new MergeView({
      parent: root,
      root,
      a: { doc: before.text, extensions: extensionsOf(before) },
      b: { doc: after.text, extensions: extensionsOf(after) },
      ...unchanged,
      diffConfig: DIFF_CONFIG
    })
    : new EditorView({
      parent: root,
      root,
      doc: spell(after.text),
      extensions: [
        extensionsOf({ text: after.text, label: `${after.label}, with what was removed` }),
        unifiedMergeView({
          original: Text.of(spell(before.text).split('\n')),
          mergeControls: false,
          ...unchanged,
          diffConfig: DIFF_CONFIG
        })
      ]
    })
  return () => {
    view.destroy()
    host.remove()
  }
}
