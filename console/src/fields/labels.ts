// What people read instead of the names of a document.

/** Words that are written in capitals. */
const CAPITALS = new Set([
  'api',
  'cta',
  'faq',
  'html',
  'http',
  'id',
  'pdf',
  'seo',
  'sms',
  'svg',
  'url',
  'vat'
])

/** Returns a name in words: `headlineText` and `headline_text` are `Headline text`. */
export function labelOf (name: string): string {
  const words = name.replace(/(\p{Ll}|\d)(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$& ').split(/[\s_\-.]+/)
    .filter(Boolean).map((word) => {
      const lower = word.toLowerCase()
      if (CAPITALS.has(lower)) return lower.toUpperCase()
      return word.length > 1 && word === word.toUpperCase() ? word : lower
    })
  const [first = '(no name)', ...others] = words
  return [first.charAt(0).toUpperCase() + first.slice(1), ...others].join(' ')
}

/** Members that may name an entry of a list, in the order of their precedence. */
export const TITLES = ['title', 'name', 'headline', 'heading', 'label', 'question', 'caption']

const MAX_LENGTH = 60

/** Shortens a text to one line. */
export function excerpt (text: string, length = MAX_LENGTH): string {
  const line = text.trim().replace(/\s+/g, ' ')
  const characters = [...line.slice(0, 2 * length)]
  return characters.length <= length && line.length <= 2 * length ? line
    : `${characters.slice(0, length - 1).join('').trimEnd()}…`
}
