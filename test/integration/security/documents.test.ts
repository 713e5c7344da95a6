import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PROJECT } from '../../helpers/service.ts'

// The documentation names tests as `FILE > NAME`. Each of these tests must exist.

const DOCUMENTS = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'bench/README.md',
  ...readdirSync(join(PROJECT, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)
]

/** A test file and an optional test name, which ends with the code span, the table cell or the line. */
const MENTION = /\b(test\/[\w./-]+\.(?:test|soak)\.ts)(?:[ \t]+>[ \t]+([^`|\n]+))?/g

interface Mention {
  readonly file: string
  /** The names from the outermost test to the one that is mentioned. */
  readonly names: readonly string[]
}

const mentionsIn = (text: string): Mention[] =>
  [...text.matchAll(MENTION)].map(([, file = '', names]) => ({
    file,
    names: names === undefined ? [] : names.split(' > ').map((name) => name.trim())
  }))

/** Whether a file has a test of that name. An expression in a template literal matches any text. */
function hasTest (source: string, name: string): boolean {
  const literals = source
    .matchAll(/\b(?:(?:t|test|tap)\.test|onEachStore)\(\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/g)
  return [...literals].some(([, single, double, template]) => {
    const text = (single ?? double ?? template ?? '').replace(/\\(.)/g, '$1')
    if (template === undefined) return text === name
    return new RegExp(`^${
      text.split(/\$\{[^}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')
    }$`).test(name)
  })
}

for (const document of DOCUMENTS) {
  t.test(`${document} mentions only tests that exist`, async (t) => {
    for (const { file, names } of mentionsIn(readFileSync(join(PROJECT, document), 'utf8'))) {
      const path = join(PROJECT, file)
      if (!t.ok(existsSync(path), `${file} exists`)) continue
      const source = readFileSync(path, 'utf8')
      for (const name of names) t.ok(hasTest(source, name), `${file} > ${name}`)
    }
    t.pass('all mentions are checked')
  })
}

t.test('docs/security.md lists each requirement once, and has tests for more than half of the rows', async (t) => {
  const text = readFileSync(join(PROJECT, 'docs/security.md'), 'utf8')
  const rows = [...text.matchAll(/^\| ((?:\d+\.\d+\.\d+[–, ]*)+) \|.*\|$/gm)]
  const ids = rows.flatMap(([, cell = '']) => cell.split(/[–, ]+/))
  t.same(ids.filter((id, index) => ids.indexOf(id) !== index), [])
  t.ok(ids.length > 150, `${ids.length} requirements`)
  t.ok(mentionsIn(text).length > rows.length / 2, `${mentionsIn(text).length} tests`)
})
