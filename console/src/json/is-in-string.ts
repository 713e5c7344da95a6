/**
 * Whether a place in a text is between the quotes of a string. The text may have errors: a line break ends
 * every string.
 */
export function isInString (text: string, offset: number): boolean {
  let isInside = false
  for (let at = 0; at < offset; at++) {
    const character = text[at]
    if (character === '"') isInside = !isInside
    else if (character === '\n') isInside = false
    else if (character === '\\' && isInside) at++
  }
  return isInside
}
