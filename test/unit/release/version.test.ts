import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { INFO } from '../../../src/http/openapi/info.ts'

const ROOT = resolve(import.meta.dirname, '../../..')
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8')
const readJson = (name: string) =>
  JSON.parse(read(name)) as { version: string, packages?: Record<string, { version: string }> }
const { version } = readJson('package.json')

t.test('packages, lock file, OpenAPI document and command line have the same version', async (t) => {
  t.match(version, /^\d+\.\d+\.\d+$/)
  const lock = readJson('package-lock.json')
  t.equal(lock.version, version, 'package-lock.json')
  for (const folder of ['', 'packages/client', 'packages/json-text', 'console']) {
    t.equal(readJson(join(folder, 'package.json')).version, version, `${folder}/package.json`)
    t.equal(lock.packages?.[folder]?.version, version, `${folder} in package-lock.json`)
  }
  t.equal(INFO.version, version, '/openapi.json')
  const printed = execFileSync(process.execPath, ['--import=tsx', 'src/cli/landfall.ts', '--version'], {
    cwd: ROOT,
    encoding: 'utf8'
  })
  t.equal(printed.trim(), version, 'landfall --version')
})

t.test('the newest release in the changelog is the version of the package, and can be upgraded to', async (t) => {
  const changelog = read('CHANGELOG.md')
  const headings = [...changelog.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading)
  t.equal(headings[0], '[Unreleased]')
  const [newest, previous] = headings.slice(1).map((heading) =>
    /^\[(.+)\] - \d{4}-\d{2}-\d{2}$/.exec(heading)?.[1]
  )
  t.equal(newest, version)
  t.match(read('docs/upgrading.md'), `\n## From ${previous} to ${version}\n`, 'docs/upgrading.md')
  const isReleased = /^## \[Unreleased\]\n\n## /m.test(changelog)
  t.equal(
    readJson('test/system/upgrade/release-before.json').version,
    isReleased ? previous : newest,
    'the release to upgrade from'
  )
})
