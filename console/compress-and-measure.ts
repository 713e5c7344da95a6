import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import type { Plugin, Rollup } from 'vite'

const KB = 1024
/** The most that a browser loads at first, compressed, in bytes. */
const MAX_FIRST_LOAD = 60 * KB
/** Parts that are loaded when they are needed: the limit of each, and the files that it is loaded from. */
const PARTS = [
  { name: 'editor', maxBytes: 130 * KB, files: ['src/editor/editor.ts', 'src/editor/comparison.ts'] },
  {
    name: 'fields',
    maxBytes: 20 * KB,
    files: ['src/screens/page/fields/fields-form.tsx', 'src/screens/page/fields/changes.tsx']
  },
  { name: 'webhooks', maxBytes: 10 * KB, files: ['src/screens/account/webhooks/webhooks.tsx'] }
]

/**
 * Writes a `.br` file beside each file of the build.
 *
 * @throws {Error} if the first load or another part has become too large
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
      const measured = new Set(first)
      const measure = (part: string, names: Set<string>, maxBytes: number) => {
        const bytes = total(names)
        this.info(`${part} ${kilobytes(bytes)} (compressed)`)
        if (bytes > maxBytes) this.error(`${part} must be at most ${kilobytes(maxBytes)}`)
      }
      measure('first load', first, MAX_FIRST_LOAD)
      for (const { name, maxBytes, files } of PARTS) {
        const part = new Set<string>()
        for (const { fileName, facadeModuleId } of chunks) {
          if (files.some((file) => facadeModuleId?.endsWith(file))) addWithImports(fileName, bundle, part)
        }
        for (const file of part) measured.add(file)
        for (const file of first) part.delete(file)
        measure(name, part, maxBytes)
      }
      const others = chunks.filter(({ fileName }) => !measured.has(fileName))
      if (others.length > 0) this.error(`No limit for ${others.map(({ fileName }) => fileName).join(', ')}`)
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

const kilobytes = (bytes: number): string => `${(bytes / KB).toFixed(1)} KB`

const compress = (bytes: Buffer): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } })
