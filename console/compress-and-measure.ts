import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Plugin, Rollup } from 'vite'

const KB = 1024
/** The most that a browser loads, compressed, in bytes. */
const MAX_FIRST_LOAD = 60 * KB
const MAX_EDITOR = 130 * KB

/**
 * Writes a `.br` file beside each file of the build.
 *
 * @throws {Error} if the first load or the editor has become too large
 */
export function compressAndMeasure (): Plugin {
  return {
    name: 'compress-and-measure',
    apply: 'build',
    writeBundle ({ dir = '' }, bundle) {
      const sizes = new Map<string, number>()
      for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile()) continue
        const path = join(entry.parentPath, entry.name)
        const compressed = compress(readFileSync(path))
        writeFileSync(`${path}.br`, compressed)
        sizes.set(path.slice(dir.length + 1), compressed.length)
      }
      const total = (names: Iterable<string>) =>
        [...names].reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0)
      const chunks = Object.values(bundle).filter((file) => file.type === 'chunk')
      const first = new Set(['index.html'])
      for (const chunk of chunks) if (chunk.isEntry) addWithImports(chunk.fileName, bundle, first)
      const later = new Set<string>()
      for (const chunk of chunks) if (!chunk.isEntry) addWithImports(chunk.fileName, bundle, later)
      for (const name of first) later.delete(name)

      const firstLoad = total(first)
      const editor = total(later)
      const kilobytes = (bytes: number) => `${(bytes / KB).toFixed(1)} KB`
      this.info(`first load ${kilobytes(firstLoad)}, editor ${kilobytes(editor)} (compressed)`)
      if (firstLoad > MAX_FIRST_LOAD) {
        this.error(`The first load must be at most ${kilobytes(MAX_FIRST_LOAD)}`)
      }
      if (editor > MAX_EDITOR) this.error(`The editor must be at most ${kilobytes(MAX_EDITOR)}`)
    }
  }
}

/** Adds a chunk with its styles and with the chunks that the browser loads together with it. */
function addWithImports (name: string, bundle: Rollup.OutputBundle, names: Set<string>): void {
  const chunk = bundle[name]
  if (chunk?.type !== 'chunk' || names.has(name)) return
  names.add(name)
  for (const style of chunk.viteMetadata?.importedCss ?? []) names.add(style)
  for (const imported of chunk.imports) addWithImports(imported, bundle, names)
}

const compress = (bytes: Buffer): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } })
