import { EditorSelection, EditorState, RangeSet, RangeSetBuilder, type Extension,
  type Text } from '@codemirror/state'
import { Decoration, EditorView, ViewPlugin, type ViewUpdate } from '@codemirror/view'

/** A line feed ends each line, so a carriage return before it is a character of the line. */
const CARRIAGE_RETURN = '\r'
const LINE_END = '\r\n'

const hidden = Decoration.replace({})
const whole = Decoration.mark({})

/** Hides the carriage returns of the lines that can be seen. */
class HiddenCharacters {
  decorations = Decoration.none

  constructor (view: EditorView) {
    this.#hide(view)
  }

  update ({ docChanged, viewportChanged, view }: ViewUpdate): void {
    if (docChanged || viewportChanged) this.#hide(view)
  }

  #hide ({ state: { doc }, visibleRanges }: EditorView): void {
    const builder = new RangeSetBuilder<Decoration>()
    for (const { from, to } of visibleRanges) {
      for (let at = from; at <= to;) {
        const line = doc.lineAt(at)
        if (line.to < doc.length && line.text.endsWith(CARRIAGE_RETURN)) {
          builder.add(line.to - 1, line.to, hidden)
        }
        at = line.to + 1
      }
    }
    this.decorations = builder.finish()
  }
}

/** The line ends beside the cursor, which passes or deletes them in one step. */
function lineEndsBeside (
  { state: { doc, selection: { main: { head } } } }: EditorView
): RangeSet<Decoration> {
  const starts = [head - 2, head].filter((at) => doc.sliceString(Math.max(0, at), at + 2) === LINE_END)
  return RangeSet.of(starts.map((start) => whole.range(start, start + LINE_END.length)))
}

/** Moves a place between the two characters of a line end before both. */
function beforeLineEnd (doc: Text, place: number): number {
  const line = doc.lineAt(place)
  return place === line.to && place < doc.length && line.text.endsWith(CARRIAGE_RETURN) ? place - 1 : place
}

/** Keeps the cursor out of line ends. What is typed there would take them apart. */
const cursorBeforeLineEnds = EditorState.transactionFilter.of((transaction) => {
  const { newDoc, newSelection, docChanged, selection } = transaction
  if (!docChanged && selection === undefined) return transaction
  const ranges = newSelection.ranges.map(({ anchor, head }) =>
    EditorSelection.range(beforeLineEnd(newDoc, anchor), beforeLineEnd(newDoc, head))
  )
  const moved = EditorSelection.create(ranges, newSelection.mainIndex)
  return moved.eq(newSelection) ? transaction : [transaction, { selection: moved, sequential: true }]
})

/** Hides the carriage returns of line ends, and keeps them. */
export const hideLineEnds: Extension = [
  ViewPlugin.fromClass(HiddenCharacters, { decorations: (plugin) => plugin.decorations }),
  EditorView.atomicRanges.of(lineEndsBeside),
  cursorBeforeLineEnds
]
