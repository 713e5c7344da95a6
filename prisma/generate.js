import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// npm run generate: generates the database client in src/infra/postgres/generated if the schema has changed.
// This is JavaScript, because it runs before TypeScript can be compiled.

const project = dirname(dirname(fileURLToPath(import.meta.url)))
const schema = join(project, 'prisma', 'schema.prisma')
const output = join(project, 'src', 'infra', 'postgres', 'generated')
const stamp = join(output, 'made-from')

const prisma = createRequire(import.meta.url).resolve('prisma/package.json')
const { version } = JSON.parse(readFileSync(prisma, 'utf8'))
const state = createHash('sha256').update(`${version}\n`).update(readFileSync(schema)).digest('hex')

if (!isUpToDate()) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [
    join(dirname(prisma), 'build', 'index.js'),
    'generate',
    '--no-hints',
    '--schema',
    schema
  ], {
    cwd: project,
    encoding: 'utf8',
    env: {
      ...process.env,
      // Without the path of any executable, Prisma would download an engine that it doesn't need here.
      PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
      CHECKPOINT_DISABLE: '1',
      PRISMA_HIDE_UPDATE_MESSAGE: '1'
    }
  })
  if (status === 0) {
    mkdirSync(output, { recursive: true })
    writeFileSync(stamp, state)
  } else {
    process.stderr.write(`${stdout ?? ''}${stderr ?? ''}`)
    process.stderr.write('The database client could not be generated from prisma/schema.prisma\n')
    process.exitCode = 1
  }
}

function isUpToDate () {
  return existsSync(join(output, 'prisma', 'client.ts')) && existsSync(stamp) &&
    readFileSync(stamp, 'utf8') === state
}
