import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PROJECT, startService, temporaryFolder } from '../helpers/service.ts'
import { until } from '../helpers/until.ts'
import { commandsOf, paste } from '../helpers/walk-through.ts'

// Runs the commands of docs/owners.md as they are written.

const guide = readFileSync(join(PROJECT, 'docs/owners.md'), 'utf8')
const blocksOf = (heading: string) => commandsOf(guide, heading)

const DOCUMENT = '{\n  "title": "Summer sale",\n  "price": 10.50,\n  "items": ["tent", "lamp"]\n}'

t.test('an owner repairs a mistake, edits a document and sees how often it is read', async (t) => {
  const folder = temporaryFolder(t)
  const { url } = await startService(t, {
    DATA_DIR: join(folder, 'data'),
    UPLOADS_DIR: join(folder, 'uploads')
  })
  const [, documents = '', mistake = '', repair = '', edit = '', patch = ''] = await paste(
    [...blocksOf('Set up'), ...blocksOf('Documents'), ...blocksOf('History'), ...blocksOf('Edits')],
    folder,
    url
  )
  t.equal(documents, 'the same bytes')
  const history = JSON.parse(mistake)
  t.same(history.map(({ version }: { version: number }) => version), [3, 2, 1])
  t.equal(history[0].author.name, 'owner@example.com')
  t.match(repair, '< {"title": "Oops"}')
  t.match(repair, '>   "price": 10.50,')
  t.ok(repair.includes(`"current_data":${DOCUMENT}\n,`), 'the restored record')
  t.ok(repair.endsWith(DOCUMENT), 'the public read')
  t.equal(
    edit,
    '3c3\n<   "price": 10.50,\n---\n>   "price": 9.90,',
    'only the price has changed'
  )
  t.equal(patch, DOCUMENT.replace('10.50', '9.90').replace('"lamp"]', '"lamp", "stove"]'))

  const [account, page] = ['account.json', 'page.json'].map((name) =>
    JSON.parse(readFileSync(join(folder, name), 'utf8'))
  )
  const variables =
    `TOKEN=${account.access_token} PAGE=http://localhost:3000/manage/landing_pages/${page.id}\n`
  const commands = blocksOf('Read counts').join('').split('\n\n').map((command) => `${command}\n`)
  const { hours, days } = await until(async () => {
    const [, hours = '', days = ''] = await paste([variables, ...commands], folder, url)
    const found = { hours: JSON.parse(hours), days: JSON.parse(days) }
    return found.hours.some(({ reads }: { reads: number }) => reads > 0) && found
  }, 'the reads are counted')
  t.equal(hours.length, 24)
  t.equal(hours.reduce((sum: number, { reads }: { reads: number }) => sum + reads, 0), 1, 'one public read')
  t.equal(days.length, 31)
})

t.test('an owner uses the command line', async (t) => {
  const folder = temporaryFolder(t)
  const { url } = await startService(t, {
    DATA_DIR: join(folder, 'data'),
    UPLOADS_DIR: join(folder, 'uploads')
  })
  const commands = blocksOf('Command line').map((block) => block.replace('/path/to/landfall', PROJECT))
  const [, shown = ''] = await paste([...blocksOf('Set up'), ...commands], folder, url)
  const lines = shown.split('\n').map((line) => line.replace(/ .*$/, ''))
  t.match(lines, ['ID', /^[\w-]{36}$/, 'VERSION', '2', '1', '{"title":'])
  t.ok(shown.endsWith('\n{"title": "Draft"}'), shown)
})
