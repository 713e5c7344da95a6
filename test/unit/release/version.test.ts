import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { INFO } from '../../../src/http/openapi/info.ts'

const ROOT = resolve(import.meta.dirname, '../../..')
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8')
const readJson = (name: string) => JSON.parse(read(name)) as { version: string }
const { version } = readJson('package.json')

t.test('package, lock file, client, OpenAPI document and command line have the same version', async (t) => {
  t.match(version, /^\d+\.\d+\.\d+$/)
  t.equal(readJson('package-lock.json').version, version, 'package-lock.json')
  t.equal(readJson('packages/client/package.json').version, version, 'packages/client/package.json')
  t.equal(INFO.version, version, '/openapi.json')
  const printed = execFileSync(process.execPath, ['--import=tsx', 'src/cli/landfall.ts', '--version'], {
    cwd: ROOT,
    encoding: 'utf8'
  })
  t.equal(printed.trim(), version, 'landfall --version')
})

t.test('the newest release in the changelog is the version of the package', async (t) => {
  const headings = [...read('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading)
  t.equal(headings[0], '[Unreleased]')
  t.equal(/^\[(.+)\] - \d{4}-\d{2}-\d{2}$/.exec(headings[1] ?? '')?.[1], version)
})
