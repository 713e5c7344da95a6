import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// npm run generate: the typed database client in src/generated, made anew only when the schema has changed. Plain
// JavaScript, because everything that TypeScript is needed for begins with it.

const project = dirname(dirname(fileURLToPath(import.meta.url)))
const schema = join(project, 'prisma', 'schema.prisma')
const output = join(project, 'src', 'generated')
const stamp = join(output, 'made-from')

const prisma = createRequire(import.meta.url).resolve('prisma/package.json')
const { version } = JSON.parse(readFileSync(prisma, 'utf8'))
const state = createHash('sha256').update(`${version}\n`).update(readFileSync(schema)).digest('hex')

if (!isMade()) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(dirname(prisma), 'build', 'index.js'), 'generate', '--no-hints', '--schema', schema], {
    cwd: project,
    encoding: 'utf8',
    env: {
      ...process.env,
      // It downloads a binary that it doesn't need for this, unless it is told that there is one: any program will do.
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

function isMade () {
  return existsSync(join(output, 'prisma', 'client.ts')) && existsSync(stamp) && readFileSync(stamp, 'utf8') === state
}
