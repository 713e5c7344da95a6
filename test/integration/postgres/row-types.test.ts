import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import pg from 'pg'
import t from 'tap'
import ts from 'typescript'
import type { Statement } from '../../../src/infra/postgres/statement.ts'
import { createMigratedDatabase } from '../../helpers/servers.ts'

// Every statement of the service is a constant of a *-repository.ts file. Its columns are compared with the
// type of its rows, and the comment above it has to say why it isn't a query of Prisma.

const ROOT = resolve(import.meta.dirname, '../../..')
const MAX_STATEMENTS = 35
const REASON = /\bhot\b|\bPrisma\b|\bone statement\b|\bcommand line\b/i
/** What pg returns for the types of PostgreSQL. */
const TYPES: Readonly<Record<string, string>> = {
  int2: 'number',
  int4: 'number',
  float8: 'number',
  int8: 'bigint',
  text: 'string',
  varchar: 'string',
  uuid: 'string',
  bool: 'boolean',
  timestamptz: 'Date',
  bytea: 'Uint8Array',
  jsonb: 'any'
}

interface Definition {
  readonly file: string
  readonly name: string
  readonly comment: string
  /** The columns of a row and their types. */
  readonly row: Readonly<Record<string, string>>
}

/** Finds the top-level constants of the type Statement, and calls of statement() outside of constants. */
function findDefinitions (): { definitions: Definition[], misplaced: string[] } {
  const config = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options, fileNames } = ts.parseJsonConfigFileContent(config.config, ts.sys, ROOT)
  const program = ts.createProgram(fileNames.filter((file) => file.endsWith('-repository.ts')), options)
  const checker = program.getTypeChecker()
  const definitions: Definition[] = []
  const misplaced: string[] = []
  for (const source of program.getSourceFiles()) {
    if (!source.fileName.endsWith('-repository.ts')) continue
    const file = relative(ROOT, source.fileName)
    for (const node of source.statements) {
      const declarations = ts.isVariableStatement(node) ? node.declarationList.declarations : []
      for (const declaration of declarations) {
        const row = rowOf(checker, checker.getTypeAtLocation(declaration))
        if (row === undefined) continue
        const comment = source.text.slice(node.getFullStart(), node.getStart()).trim()
        definitions.push({ file, name: declaration.name.getText(), comment, row })
      }
      const isFactory = declarations.some((declaration) =>
        checker.getTypeAtLocation(declaration).getCallSignatures()
          .some((signature) => rowOf(checker, signature.getReturnType()) !== undefined)
      )
      const isDefinition = declarations.some(({ name }) =>
        definitions.some((one) => one.file === file && one.name === name.getText())
      )
      if (!isFactory && !isDefinition && /\bstatement[<(]/.test(node.getText())) {
        misplaced.push(`${file}: ${node.getText().slice(0, 60)}`)
      }
    }
  }
  return { definitions, misplaced }
}

/** Returns the columns of a statement's rows; undefined if the type isn't Statement. */
function rowOf (checker: ts.TypeChecker, type: ts.Type): Record<string, string> | undefined {
  if (type.symbol?.name !== 'Statement') return undefined
  const [row] = checker.getTypeArguments(type as ts.TypeReference)
  return Object.fromEntries(checker.getPropertiesOfType(row as ts.Type)
    .map((property) => [property.name, nameOfType(checker, checker.getTypeOfSymbol(property))]))
}

function nameOfType (checker: ts.TypeChecker, type: ts.Type): string {
  const present = checker.getNonNullableType(type)
  if ((present.flags & ts.TypeFlags.StringLike) !== 0) return 'string'
  if (present.isUnion() && (present.flags & ts.TypeFlags.Boolean) === 0) {
    return [...new Set(present.types.map((one) => nameOfType(checker, one)))].join(' | ')
  }
  if (checker.isArrayType(present)) {
    return `${nameOfType(checker, checker.getTypeArguments(present as ts.TypeReference)[0] as ts.Type)}[]`
  }
  return present.symbol?.name ?? checker.typeToString(present)
}

/**
 * Evaluates the repositories with their constants exported, beside the built rest of the service.
 *
 * @param folder a folder of the project, so that packages are found
 */
async function loadStatements (
  folder: string,
  definitions: readonly Definition[]
): Promise<Map<Definition, Statement<unknown>>> {
  const constantsOf = (file: string) => definitions.filter((one) => one.file === file)
  const files = [...new Set(definitions.map(({ file }) => file))]
  const built = (path: string) => path.replace(/^src\//, 'dist/').replace(/\.ts$/, '.js')
  await build({
    entryPoints: files,
    outdir: folder,
    outbase: ROOT,
    absWorkingDir: ROOT,
    bundle: true,
    packages: 'external',
    format: 'esm',
    outExtension: { '.js': '.mjs' },
    plugins: [{
      name: 'export-constants',
      setup ({ onLoad, onResolve }) {
        onLoad({ filter: /-repository\.ts$/ }, async ({ path }) => {
          const names = constantsOf(relative(ROOT, path)).map(({ name }) => name)
          return { contents: `${await readFile(path, 'utf8')}\nexport { ${names.join(', ')} }`, loader: 'ts' }
        })
        onResolve({ filter: /^\./ }, ({ path, importer, resolveDir }) =>
          importer === '' ? undefined
            : { path: join(ROOT, built(relative(ROOT, resolve(resolveDir, path)))), external: true })
      }
    }]
  })
  const statements = new Map<Definition, Statement<unknown>>()
  for (const file of files) {
    const path = join(folder, file.replace(/ts$/, 'mjs'))
    const module = await import(pathToFileURL(path).href) as Record<string, Statement<unknown>>
    for (const one of constantsOf(file)) statements.set(one, module[one.name] as Statement<unknown>)
  }
  return statements
}

interface Described {
  readonly parameters: number
  readonly columns: readonly pg.FieldDef[]
}

/** Parses a statement without running it, and asks for the types of its parameters and columns. */
async function describe (client: pg.Client, text: string): Promise<Described> {
  let parameters = 0
  const query = new pg.Query({ text })
  query.submit = (connection) => {
    connection.once('parameterDescription', (message: { parameterCount: number }) => {
      parameters = message.parameterCount
    })
    connection.parse({ name: '', text, types: [] }, true)
    connection.describe({ type: 'S', name: '' }, true)
    connection.sync()
  }
  const [{ fields }] = await once(client.query(query), 'end') as [pg.QueryResult]
  return { parameters, columns: fields }
}

const { definitions, misplaced } = findDefinitions()

t.test('statements are top-level constants, few, and say why they are not queries of Prisma', async (t) => {
  t.same(misplaced, [])
  t.ok(definitions.length <= MAX_STATEMENTS, `${definitions.length} statements`)
  for (const { file, name, comment } of definitions) t.match(comment, REASON, `${file} ${name}`)
})

t.test('the columns of every statement have the types of its rows', async (t) => {
  const client = new pg.Client(await createMigratedDatabase(t))
  await client.connect()
  t.teardown(async () => await client.end())
  const { rows } = await client.query<{ oid: number, typname: string }>('SELECT oid, typname FROM pg_type')
  const typeNames = new Map(rows.map(({ oid, typname }) => [oid, typname]))
  const typeOf = ({ dataTypeID }: pg.FieldDef): string => {
    const name = typeNames.get(dataTypeID) ?? ''
    const element = TYPES[name.replace(/^_/, '')] ?? name
    return name.startsWith('_') ? `${element}[]` : element
  }
  for (const [{ file, name, row }, statement] of await loadStatements(t.testdir(), definitions)) {
    await t.test(`${file} ${name}`, async (t) => {
      const { columns, parameters } = await describe(client, statement.text)
      t.same(Object.fromEntries(columns.map((column) => [column.name, typeOf(column)])), row)
      t.equal(parameters, statement.parameters.length, 'all parameters have names')
    })
  }
})
