// What a page is called: its label, or else its public id.

/** The members of a document that may be its label, in the order of their precedence. */
const NAMES = ['title', 'name', 'headline']
/** In characters (code points). */
const MAX_LENGTH = 200

/** A character that is seen: no white space, nothing that only joins or turns others. */
const VISIBLE = /[^\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}]/u

/** Returns the label if it can be seen, or else the public id. */
export const nameOf = (label: string | null, publicId: string): string =>
  label !== null && VISIBLE.test(label) ? label : publicId

/** Returns the label of a document, as the list of pages has it. @param text a valid document */
export function findLabel (text: string): string | null {
  const document = JSON.parse(text) as Record<string, unknown>
  for (const name of NAMES) {
    const value = Object.hasOwn(document, name) ? document[name] : undefined
    if (typeof value !== 'string') continue
    const label = [...value].slice(0, MAX_LENGTH).join('').replace(/\p{Surrogate}/gu, '\ufffd')
    if (label.trim() !== '') return label
  }
  return null
}
