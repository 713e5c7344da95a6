const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/

/**
 * Parses a JSON Pointer (RFC 6901).
 *
 * @returns the names from the outermost to the innermost; undefined if the text isn't a JSON Pointer
 */
export const parsePointer = (pointer: string): string[] | undefined =>
  POINTER.test(pointer)
    ? pointer.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')) : undefined

/** Formats a JSON Pointer (RFC 6901). */
export const formatPointer = (names: readonly string[]): string =>
  names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
