/** Returns the size of a text in UTF-8, without encoding it. */
export function byteLength (text: string): number {
  let bytes = text.length
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x80) continue
    bytes += code < 0x800 ? 1 : 2
    // A pair of surrogates is four bytes. A lone one is replaced by a character of three.
    if (code >= 0xd800 && code < 0xdc00 && isLowSurrogate(text.charCodeAt(at + 1))) at++
  }
  return bytes
}

const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code < 0xe000
