import { jsonLanguage } from '@codemirror/lang-json'
import { bidiIsolates, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { EditorState, type Extension } from '@codemirror/state'
import { EditorView, highlightSpecialChars } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { hideLineEnds } from './line-ends.ts'
import { hasLongLine } from './long-lines.ts'
import { theme } from './theme.ts'

// What the editor and the comparison have in common.

/**
 * Characters that can't be seen, or that change the order of others. Joiners and variation selectors are
 * left alone: writing systems and emoji need them.
 */
const INVISIBLE = /(?! |\u200c|\u200d|\ufe0e|\ufe0f)[\p{Zs}\p{Zl}\p{Zp}\p{Cf}\p{Cs}\p{DI}\ufffc]/u
const CONTROL = /(?![\t\n])\p{Cc}/u
const CONTROL_BUT_LINE_ENDS = /(?!\r$|[\t\n])\p{Cc}/u

/** Whether a text has characters for which `exactText` shows something else. */
export const hasInvisible = (text: string): boolean => INVISIBLE.test(text) || CONTROL.test(text)

/**
 * Spells the characters for which `exactText` shows something else, as in `⟨U+200B⟩`.
 *
 * @param showsLineEnds whether carriage returns at the ends of lines are spelled, too
 */
export function spellInvisible (text: string, showsLineEnds: boolean): string {
  const { source } = showsLineEnds ? CONTROL : CONTROL_BUT_LINE_ENDS
  return text.replaceAll(
    new RegExp(`${INVISIBLE.source}|${source}`, 'gmu'),
    (character) => `⟨${nameOf(character.codePointAt(0) as number)}⟩`
  )
}

/** Returns the name of a character, such as `U+200B`. */
const nameOf = (code: number): string => `U+${code.toString(16).toUpperCase().padStart(4, '0')}`

/**
 * Keeps every character as it is, and shows those that can't be seen.
 *
 * @param showsLineEnds whether carriage returns at the ends of lines are shown, too
 */
export const exactText = (showsLineEnds: boolean): Extension => [
  // Otherwise carriage returns would become line feeds.
  EditorState.lineSeparator.of('\n'),
  highlightSpecialChars({
    specialChars: showsLineEnds ? CONTROL : CONTROL_BUT_LINE_ENDS,
    addSpecialChars: INVISIBLE,
    render: renderSpecial
  }),
  showsLineEnds ? [] : hideLineEnds
]

const SIGNS: Readonly<Record<number, string>> = { 0x0d: '␍', 0xa0: '°', 0x202f: '°' }

function renderSpecial (code: number, description: string | null): HTMLElement {
  const element = document.createElement('span')
  element.className = 'cm-specialChar'
  element.textContent = SIGNS[code] ?? nameOf(code)
  element.title = description ?? nameOf(code)
  element.setAttribute('role', 'img')
  element.setAttribute('aria-label', element.title)
  return element
}

const highlightStyle = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--code-name)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: tags.number, color: 'var(--code-number)' },
  { tag: [tags.bool, tags.null], color: 'var(--code-word)' },
  { tag: [tags.separator, tags.squareBracket, tags.brace], color: 'var(--code-punctuation)' }
])

/** Colours of JSON. */
export const highlighting: Extension = [
  jsonLanguage,
  syntaxHighlighting(highlightStyle),
  bidiIsolates(),
  theme
]

/** Wraps the lines of a text, if this is quick enough. */
export const wrapping = (text: string): Extension => hasLongLine(text) ? [] : EditorView.lineWrapping

let hosts = 0

const STYLE = `
  [hidden] { display: none }
  .cm-editor, .cm-mergeView { height: 100% }
  .cm-mergeView { overflow: auto }
  /* Without backgrounds, lines and signs tell what differs. */
  @media (forced-colors: active) {
    .cm-changedLine, .cm-inlineChangedLine, .cm-deletedChunk { border-inline-start: 4px solid }
    .cm-merge-a .cm-changedLine, .cm-deletedChunk { border-inline-start-style: dotted }
    .cm-merge-b .cm-changedText.cm-changedText { text-decoration: underline 2px }
    .cm-merge-a .cm-changedText.cm-changedText, .cm-deletedText.cm-deletedText { text-decoration: line-through 2px }
    .cm-changedText, .cm-deletedText { font-weight: bold }
  }
`

/**
 * Creates a shadow root. In it, CodeMirror needs no `<style>` element, which the policy of the console would
 * refuse.
 *
 * @param hint describes the editor to screen readers
 */
export function createShadowRoot (parent: Element, hint: string): {
  root: ShadowRoot
  host: HTMLElement
  hintId: string
} {
  const host = document.createElement('div')
  host.className = 'code'
  const root = host.attachShadow({ mode: 'open', delegatesFocus: true })
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLE)
  root.adoptedStyleSheets = [sheet]
  const description = document.createElement('p')
  description.id = `code-hint-${++hosts}`
  description.hidden = true
  description.textContent = hint
  root.append(description)
  parent.append(host)
  return { root, host, hintId: description.id }
}
