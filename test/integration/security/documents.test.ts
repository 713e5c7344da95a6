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

/** A test file with an optional test name, or `> NAME`, another test of the file that was named last. */
const MENTION = /\b(test\/[\w./-]+\.(?:test|soak)\.ts)(?:[ \t]+>[ \t]+([^`|\n]+))?|`> ([^`|\n]+)`/g

interface Mention {
  readonly file: string
  /** The names from the outermost test to the one that is mentioned. */
  readonly names: readonly string[]
}

function mentionsIn (text: string): Mention[] {
  let last = ''
  return [...text.matchAll(MENTION)].map(([, file = last, first, next]) => {
    last = file
    return { file, names: (first ?? next)?.split(' > ').map((name) => name.trim()) ?? [] }
  })
}

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

t.test('docs/security.md says of each requirement either that it is met, or why not', async (t) => {
  const [, text = ''] = readFileSync(join(PROJECT, 'docs/security.md'), 'utf8')
    .split(/^## (?=OWASP ASVS)|^## RFC/m)
  const [verified = [], others = []] = text.split('These are met by design').map((part) =>
    [...part.matchAll(/(\d+\.\d+\.)(\d+)(?:–\1(\d+))?/g)].flatMap(([, section = '', first, last = first]) =>
      Array.from(
        { length: Number(last) - Number(first) + 1 },
        (_, index) => `${section}${Number(first) + index}`
      )
    )
  )
  t.same(others.filter((id, index) => others.indexOf(id) !== index || verified.includes(id)), [])
  t.ok(new Set(verified).size > 110, `${new Set(verified).size} requirements are verified`)
  t.same(text.match(/^- \d(?!.*: `> ).*$/gm), null, 'each line names a test')
})
