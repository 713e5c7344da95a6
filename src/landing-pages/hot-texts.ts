import type { Representation } from './cached-document.ts'

/** Longer ones are no faster as strings: Node copies only short strings without asking for memory. */
const MAX_TEXT_BYTES = 12 * 1024
/** Of all strings together. They live on V8's heap, which is limited, while the cache's budget is not. */
const MAX_BYTES = 8 * 1024 * 1024
/** What keeping one costs beside its bytes. */
const OVERHEAD_BYTES = 1024

/**
 * The bodies that are read now, as strings: a string goes out together with the head, in one system call. When there are
 * too many, all are forgotten, and those that are still read are made again.
 */
export class HotTexts {
  #holders: Representation[] = []
  #bytes = 0

  /** The body as it is best sent; for representations that are going to be sent again. */
  bodyOf (representation: Representation): Buffer | string {
    if (representation.text !== undefined) return representation.text
    const { bytes } = representation
    if (bytes.length > MAX_TEXT_BYTES) return bytes
    if (this.#bytes > MAX_BYTES) this.#forget()
    this.#holders.push(representation)
    this.#bytes += bytes.length + OVERHEAD_BYTES
    return (representation.text = bytes.toString('latin1'))
  }

  #forget (): void {
    for (const representation of this.#holders) representation.text = undefined
    this.#holders = []
    this.#bytes = 0
  }
}
