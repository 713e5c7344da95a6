import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { call } from '../../helpers/client.ts'
import { phonePhoto } from '../../shared/pictures.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { until } from '../../helpers/until.ts'
import { commandsOf, paste } from './walk-through.ts'

// Runs the commands of docs/owners.md as they are written.

const guide = readFileSync(join(PROJECT, 'docs/owners.md'), 'utf8')
const blocksOf = (heading: string) => commandsOf(guide, heading)

const { url } = await startServiceOnPostgres(t, RECEIVABLE)
let accounts = 0

/** A reader with an account and a folder of their own, who runs code blocks of the guide. */
function newReader (t: Test) {
  const folder = temporaryFolder(t)
  const email = `owner-${++accounts}@example.com`
  const run = async (...blocks: string[]) =>
    await paste(blocks.map((block) => block.replaceAll('owner@example.com', email)), folder, url)
  return { folder, email, run, parse: (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8')) }
}

const DOCUMENT = '{\n  "title": "Summer sale",\n  "price": 10.50,\n  "items": ["tent", "lamp"]\n}'

t.test('an owner uploads a photo, reads a smaller variant, and keeps a photo that a page uses', async (t) => {
  const { folder, run, parse } = newReader(t)
  writeFileSync(join(folder, 'photo.jpg'), await phonePhoto())
  const [account = ''] = blocksOf('Set up')
  const [, listed = '', usedBy = '', refused = ''] = await run(
    account,
    ...blocksOf('Pictures'),
    ...blocksOf('Assets in use')
  )
  t.match(listed.split('\n'), Array(10).fill(/\/uploads\/\w{22}\/w\d+\.(webp|jpg)$/))
  t.match(await sharp(join(folder, 'small.webp')).metadata(), {
    format: 'webp',
    width: 320,
    height: 427,
    exif: undefined
  })
  const page = parse('photo-page.json')
  for (const value of [page.id, page.public_id]) t.ok(usedBy.includes(`'${value}'`), usedBy)
  t.same(JSON.parse(refused), { errors: [`File is used by 1 page: ${page.public_id}`] })
})

t.test('an owner repairs a mistake, edits a document and sees how often it is read', async (t) => {
  const { run, parse } = newReader(t)
  const [, , , documents = '', mistake = '', repair = '', edit = '', patch = ''] =
    await run(...['Set up', 'Documents', 'History', 'Edits'].flatMap(blocksOf))
  t.equal(documents, 'the same bytes')
  const history = JSON.parse(mistake)
  t.same(history.map(({ version }: { version: number }) => version), [3, 2, 1])
  t.same(history[0].author, { type: 'api_key', name: 'My scripts' })
  t.match(repair, '< {"title": "Oops"}')
  t.match(repair, '>   "price": 10.50,')
  t.ok(repair.includes(`"current_data":${DOCUMENT}\n,`), 'the restored record')
  t.ok(repair.endsWith(DOCUMENT), 'the public read')
  t.equal(edit, '3c3\n<   "price": 10.50,\n---\n>   "price": 9.90,', 'only the price has changed')
  t.equal(patch, DOCUMENT.replace('10.50', '9.90').replace('"lamp"]', '"lamp", "stove"]'))

  const { key } = parse('key.json')
  const variables = `KEY=${key} PAGE=http://localhost:3000/manage/landing_pages/${parse('page.json').id}\n`
  const commands = blocksOf('Read counts').join('').split('\n\n').map((command) => `${command}\n`)
  const { hours, days } = await until(async () => {
    const [, hours = '', days = ''] = await run(variables, ...commands)
    const found = { hours: JSON.parse(hours), days: JSON.parse(days) }
    return found.hours.some(({ reads }: { reads: number }) => reads > 0) && found
  }, 'the reads are counted')
  t.equal(hours.length, 24)
  t.equal(hours.reduce((sum: number, { reads }: { reads: number }) => sum + reads, 0), 1, 'one public read')
  t.equal(days.length, 31)
})

t.test('an owner publishes a draft, unpublishes a page, schedules another draft, and gets a deleted one back', async (t) => {
  const { run } = newReader(t)
  const [, , , , published = '', previewed = '', again = '', scheduled = '', restored = ''] =
    await run(...['Set up', 'Documents', 'Drafts and the trash'].flatMap(blocksOf))
  t.ok(published.endsWith('{"title": "Summer sale"}'), published)
  t.match(previewed, /^\{"title": "Summer sale"\}\[\{"id":.*"name":"For Ada".*\}\]$/)
  t.match(again, /"published":false.*"published":true/s)
  t.match(scheduled, /"publish_at":"[\d-]+T17:00:00.000Z","unpublish_at":"[\d-]+T22:30:00.000Z"/)
  t.match(restored, /"label":"Summer sale".*"published":true/s)
})

t.test('an owner creates a webhook, tests it, and gives it a new secret', async (t) => {
  const { run } = newReader(t)
  const receiver = await startReceiver(t)
  const [account = ''] = blocksOf('Set up')
  const commands = blocksOf('Webhooks').map((block) =>
    block.replace('https://build.example.com/hooks', receiver.url)
  )
  const [, created = '', tested = '', changed = ''] = await run(account, ...commands)
  t.match(JSON.parse(created), { name: 'Website build', secret: /^whsec_/ })
  t.match(JSON.parse(tested), [{ type: 'webhook.test' }])
  t.match(changed, /^\{"secret":"whsec_.*\}\{.*"active":true/)
  t.match(await receiver.message(1), { type: 'webhook.test' })
})

t.test('an owner uses the command line', async (t) => {
  const { run } = newReader(t)
  const commands = blocksOf('Command line').map((block) => block.replace('/path/to/landfall', PROJECT))
  const [, , , shown = '', imported = ''] = await run(...blocksOf('Set up'), ...commands)
  const lines = shown.split('\n').map((line) => line.replace(/ .*$/, ''))
  t.match(lines, ['ID', /^[\w-]{36}$/, 'There', 'VERSION', '2', '1', '{"title":'])
  t.match(shown, /^There are no such pages$/m, 'no page is called "summer sale"')
  t.ok(shown.endsWith('\n{"title": "Draft"}'), shown)
  t.match(imported, /^lfp_\w+\nRESULT {3}FILE\ncreated {2}summer-sale\.json$/)
})

t.test('an owner gives a program a key, changes the password and deletes the account', async (t) => {
  const { email, run, parse } = newReader(t)
  const [, , , read = '', refused = '', listed = '', sessions = '', changed] =
    await run(...['Set up', 'API keys', 'Sessions and password'].flatMap(blocksOf))
  t.match(JSON.parse(read), { current_data: { title: 'Draft' } })
  t.same(JSON.parse(refused), { errors: ['API key lacks the scope pages:write'] })
  const [list = '', afterwards = ''] = listed.split(/(?<=\])(?=\{)/)
  t.match(JSON.parse(list), [{ name: 'Report', scopes: ['pages:read'] }, { name: 'My scripts' }])
  t.same(JSON.parse(afterwards), { errors: ['API key is mistyped, deleted or expired'] })
  t.match(JSON.parse(sessions), [{ current: true }, { current: false }])
  t.equal(changed, '')

  for (const token of [parse('key.json').key, parse('account.json').access_token]) {
    const headers = { authorization: `Bearer ${token}` }
    t.equal((await call('GET', `${url}/manage/landing_pages`, { headers })).status, 401)
  }
  const json = { user: { email, password: 'staple battery' } }
  const signIn = await call('POST', `${url}/auth/sign_in`, { json })
  t.equal(signIn.status, 200)

  await run(`TOKEN=${signIn.json().access_token}\n`, ...blocksOf('Delete the account'))
  t.equal((await call('GET', `${url}/landing_pages/${parse('page.json').public_id}`)).status, 404)
})
