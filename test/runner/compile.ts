import { mkdirSync, readFileSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { transform } from 'esbuild'

// Compiles the tests that changed, so that test files run without a loader, which costs a second of CPU time.
// They import the built service (`dist`), which `npm test` has brought up to date.

const ROOT = resolve(import.meta.dirname, '../..')
const OUTPUT = join(ROOT, '.tap/compiled')
/** The module that test files import in place of tap. */
const TAP = join(OUTPUT, 'test/runner/tap.js')
/** Folders that test files import from and that the build doesn't compile. */
const SOURCES = ['test', 'bench', 'prisma', 'scripts', 'packages/client/src', 'console/src']
const EXCLUDED = /(^|\/)(node_modules|dist|src|migrations|results)(\/|$)/
/** Files whose change makes all compiled files out of date. */
const COMPILER = ['test/runner/compile.ts', 'package-lock.json']
/** Folders of built sources, and of their output. */
const BUILT = [['src/', 'dist/'], ['packages/json-text/src/', 'dist/json-text/']] as const

/**
 * Compiles the tests and the modules that they import.
 *
 * @param files test files outside the usual folders, relative to the project
 */
export async function compileTests (files: readonly string[]): Promise<void> {
  const sources = SOURCES.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => !EXCLUDED.test(name) && /\.(ts|js)$/.test(name))
      .map((name) => join(folder, name))
  )
  const compilerTime = Math.max(...COMPILER.map((file) => modifiedTime(join(ROOT, file))))
  await Promise.all([...new Set([...sources, ...files])]
    .filter((file) => modifiedTime(compiledPath(file)) <= Math.max(compilerTime, modifiedTime(file)))
    .map(compileFile))
}

/** Returns the modification time of a file in milliseconds; 0 if it doesn't exist. */
function modifiedTime (file: string): number {
  return statSync(resolve(ROOT, file), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** Returns the path of the compiled file; both paths are relative to the project. */
export function compiledPath (file: string): string {
  return relative(ROOT, join(OUTPUT, file.replace(/\.ts$/, '.js')))
}

async function compileFile (file: string): Promise<void> {
  const source = join(ROOT, file)
  const output = join(ROOT, compiledPath(file))
  const { code } = await transform(readFileSync(source, 'utf8'), {
    loader: file.endsWith('.ts') ? 'ts' : 'js',
    format: 'esm',
    target: 'es2023',
    sourcefile: source,
    sourcemap: 'inline',
    sourcesContent: false,
    define: {
      'import.meta.dirname': JSON.stringify(dirname(source)),
      'import.meta.filename': JSON.stringify(source),
      'import.meta.url': JSON.stringify(pathToFileURL(source).href)
    }
  })
  mkdirSync(dirname(output), { recursive: true })
  // Written to a temporary name and renamed, because another run may be reading the file.
  const temporary = `${output}.${process.pid}`
  const own = file.startsWith('test/runner/')
  writeFileSync(
    temporary,
    code.replace(
      /^import (\w+) from "tap";$/gm,
      (line, name: string) =>
        own ? line : `import ${name} from ${JSON.stringify(relative(dirname(output), TAP))};`
    ).replace(
      /(^import |^(?:(?:im|ex)port .*)?\} from |^(?:im|ex)port .* from |\bimport\()"(\.[^"]+)\.ts"/gm,
      (_, start: string, path: string) => `${start}${JSON.stringify(target(source, output, path))}`
    )
  )
  renameSync(temporary, output)
}

/** Returns the import path of the compiled file for an import of its source. */
function target (source: string, output: string, specifier: string): string {
  const imported = relative(ROOT, resolve(dirname(source), `${specifier}.js`))
  const [from, to] = BUILT.find(([folder]) => imported.startsWith(folder)) ??
    ['', `${relative(ROOT, OUTPUT)}/`]
  const path = relative(dirname(output), join(ROOT, to + imported.slice(from.length)))
  return path.startsWith('.') ? path : `./${path}`
}
