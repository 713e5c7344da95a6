import { EditorView } from '@codemirror/view'

// The colours are those of styles/tokens.css: custom properties are inherited into a shadow root.

const button = {
  background: 'var(--surface)',
  color: 'var(--text)',
  border: '1px solid var(--line-strong)',
  borderRadius: '4px',
  fontSize: '0.875rem',
  minHeight: '28px',
  minWidth: '28px'
}

const focused = { outline: '3px solid var(--focus)', outlineOffset: '1px' }

export const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '0.875rem' },
  // What surrounds the editor has the outline. Here, the gutters would cover it.
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-dropCursor.cm-dropCursor': { borderLeft: '2px solid var(--accent)' },
  '.cm-content ::selection, .cm-content::selection': { backgroundColor: 'var(--code-selection)' },
  '.cm-gutters.cm-gutters': {
    color: 'var(--text-quiet)',
    backgroundColor: 'var(--surface-sunken)',
    borderColor: 'var(--line)'
  },
  '.cm-foldGutter .cm-gutterElement': { minWidth: '24px', textAlign: 'center' },
  '.cm-foldPlaceholder': {
    color: 'var(--text)',
    backgroundColor: 'var(--surface-sunken)',
    borderColor: 'var(--line-strong)',
    padding: '0 8px'
  },
  '.cm-specialChar.cm-specialChar': {
    color: 'var(--danger)',
    border: '1px solid',
    borderRadius: '3px',
    fontSize: '0.75em',
    padding: '0 2px'
  },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--accent-faint)',
    outline: '1px solid var(--accent)'
  },
  '&.cm-focused .cm-nonmatchingBracket': {
    backgroundColor: 'var(--danger-faint)',
    outline: '1px solid var(--danger)'
  },
  '.cm-searchMatch.cm-searchMatch': {
    backgroundColor: 'var(--warning-faint)',
    outline: '1px solid var(--line-strong)'
  },
  '.cm-searchMatch.cm-searchMatch-selected': { outline: '2px solid var(--accent)' },
  '.cm-selectionMatch': { backgroundColor: 'transparent' },
  '.cm-panels.cm-panels': {
    color: 'var(--text)',
    backgroundColor: 'var(--surface-sunken)',
    borderColor: 'var(--line)'
  },
  '.cm-panel.cm-search': { padding: '8px 40px 4px 8px' },
  '.cm-panel.cm-search label': { fontSize: '0.875rem', display: 'inline-block', minHeight: '28px' },
  '.cm-panel.cm-search input[type=checkbox]': { width: '16px', height: '16px', verticalAlign: 'middle' },
  '.cm-button.cm-button': { ...button, backgroundImage: 'none', padding: '2px 12px' },
  '.cm-panel [name=close]': { ...button, top: '8px', right: '8px', border: 'none' },
  '.cm-textfield.cm-textfield': { ...button, padding: '2px 8px' },
  '.cm-panel :is(input, button):focus-visible': focused,
  '.cm-tooltip.cm-tooltip': {
    color: 'var(--text)',
    backgroundColor: 'var(--surface-raised)',
    border: '1px solid var(--line-strong)',
    fontFamily: 'var(--font)'
  },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--danger)' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    backgroundColor: 'var(--danger-faint)',
    textDecoration: 'underline wavy var(--danger)'
  },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--line-strong)' },
  '.cm-lintRange-warning': {
    backgroundImage: 'none',
    backgroundColor: 'var(--warning-faint)',
    textDecoration: 'underline wavy var(--line-strong)'
  },
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--danger)' },
  '.cm-panel.cm-panel-lint ul [aria-selected]': {
    color: 'var(--text)',
    backgroundColor: 'var(--accent-faint)'
  },
  // Two texts side by side.
  '&.cm-merge-a .cm-changedLine, .cm-deletedChunk': { backgroundColor: 'var(--removed-faint)' },
  '&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine': { backgroundColor: 'var(--added-faint)' },
  '&.cm-merge-a .cm-changedText.cm-changedText, .cm-deletedChunk .cm-deletedText.cm-deletedText': {
    background: 'var(--removed)'
  },
  '&.cm-merge-b .cm-changedText.cm-changedText': { background: 'var(--added)' },
  '.cm-collapsedLines.cm-collapsedLines': {
    color: 'var(--text-quiet)',
    background: 'var(--surface-sunken)'
  },
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: '"↕"' }
})
