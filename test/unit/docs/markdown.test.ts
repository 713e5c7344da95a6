import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'

// Links, anchors and file names in the documentation must exist.

const ROOT = resolve(import.meta.dirname, '../../..')
const FOLDERS = ['.github', 'bench', 'deploy', 'docs', 'examples', 'packages', 'src', 'test']
const FILES = [
  ...readdirSync(ROOT),
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))
  )
].filter((name) => !/(^|\/)(node_modules|dist|generated)\//.test(name))
const DOCUMENTS = FILES.filter((name) => name.endsWith('.md'))

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8')
const withoutCode = (text: string): string => text.replace(/^( *)```[\s\S]*?^\1```$/gm, '')

/** The anchors that GitHub generates for headings. */
const anchorsOf = (text: string): string[] =>
  [...withoutCode(text).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
  )

t.test('links lead to existing files and headings', async (t) => {
  for (const document of DOCUMENTS) {
    for (const [, link = ''] of withoutCode(read(document)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? join(ROOT, document) : resolve(ROOT, dirname(document), path)
      if (!t.ok(existsSync(target), `${document}: ${link}`) || anchor === undefined) continue
      t.ok(anchorsOf(readFileSync(target, 'utf8')).includes(anchor), `${document}: ${link}`)
    }
  }
})

t.test('lines of prose have at most 110 columns', async (t) => {
  for (const document of DOCUMENTS) {
    // Tables, indented code, and lines that are one long word can't be wrapped.
    const long = withoutCode(read(document)).split('\n').filter((line) =>
      [...line].length > 110 && !/^(\||!?\[| {4})/.test(line) && line.trim().includes(' ')
    )
    t.same(long, [], document)
  }
})

t.test('the README.md files of src name only existing files', async (t) => {
  const sources = FILES.filter((name) => name.startsWith('src/') && name.endsWith('.ts'))
  for (const readme of DOCUMENTS.filter((name) => name.startsWith('src/'))) {
    for (const [, name = ''] of read(readme).matchAll(/`([\w/-]+\.ts)`/g)) {
      t.ok(sources.some((source) => `/${source}`.endsWith(`/${name}`)), `${readme}: ${name}`)
    }
  }
})

t.test('every ADR has the standard sections, a unique number and an entry in the index', async (t) => {
  const records = FILES.filter((name) => /^docs\/adr\/\d{4}-.*\.md$/.test(name)).sort()
  const numbers = records.map((name) => name.slice('docs/adr/'.length, 'docs/adr/'.length + 4))
  const listed = [...read('docs/adr/README.md').matchAll(/^\| \[(\d{4})\]\((.+)\) \|/gm)]
  t.same(
    listed.map(([, number, name]) => [number, `docs/adr/${name}`]),
    records.map((name, index) => [numbers[index], name])
  )
  t.same(numbers, [...new Set(numbers)])
  for (const record of records) {
    t.match(
      read(record),
      /^# \d{4}: .*\n\nStatus: \w+[\s\S]*\n## Context\n[\s\S]*\n## Decision\n[\s\S]*\n## Consequences\n/
    )
  }
})
