import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { phonePhoto } from '../../shared/pictures.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { until } from '../../helpers/until.ts'
import { commandsOf, paste } from './walk-through.ts'

// Runs the commands of docs/owners.md as they are written.

const guide = readFileSync(join(PROJECT, 'docs/owners.md'), 'utf8')
const blocksOf = (heading: string) => commandsOf(guide, heading)

/** Starts a service of its own, and a folder for the commands. */
async function startInFolder (t: Test, env = {}): Promise<{ folder: string, url: string }> {
  return { folder: temporaryFolder(t), url: (await startServiceOnPostgres(t, env)).url }
}

const DOCUMENT = '{\n  "title": "Summer sale",\n  "price": 10.50,\n  "items": ["tent", "lamp"]\n}'

t.test('an owner uploads a photo, reads a smaller variant, and keeps a photo that a page uses', async (t) => {
  const { folder, url } = await startInFolder(t)
  writeFileSync(join(folder, 'photo.jpg'), await phonePhoto())
  const [account = ''] = blocksOf('Set up')
  const blocks = [account, ...blocksOf('Pictures'), ...blocksOf('Assets in use')]
  const [, listed = '', usedBy = '', refused = ''] = await paste(blocks, folder, url)
  t.match(listed.split('\n'), Array(10).fill(/\/uploads\/\w{22}\/w\d+\.(webp|jpg)$/))
  t.match(await sharp(join(folder, 'small.webp')).metadata(), {
    format: 'webp',
    width: 320,
    height: 427,
    exif: undefined
  })
  const page = JSON.parse(readFileSync(join(folder, 'photo-page.json'), 'utf8'))
  for (const value of [page.id, page.public_id]) t.ok(usedBy.includes(`'${value}'`), usedBy)
  t.same(JSON.parse(refused), { errors: [`File is used by 1 page: ${page.public_id}`] })
})

t.test('an owner repairs a mistake, edits a document and sees how often it is read', async (t) => {
  const { folder, url } = await startInFolder(t)
  const [, , , documents = '', mistake = '', repair = '', edit = '', patch = ''] = await paste(
    [...blocksOf('Set up'), ...blocksOf('Documents'), ...blocksOf('History'), ...blocksOf('Edits')],
    folder,
    url
  )
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

  const [{ key }, page] = ['key.json', 'page.json'].map((name) =>
    JSON.parse(readFileSync(join(folder, name), 'utf8'))
  )
  const variables = `KEY=${key} PAGE=http://localhost:3000/manage/landing_pages/${page.id}\n`
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

t.test('an owner publishes a draft, unpublishes a page, schedules another draft, and gets a deleted one back', async (t) => {
  const { folder, url } = await startInFolder(t)
  const blocks = [...blocksOf('Set up'), ...blocksOf('Documents'), ...blocksOf('Drafts and the trash')]
  const [, , , , published = '', previewed = '', again = '', scheduled = '', restored = ''] = await paste(
    blocks,
    folder,
    url
  )
  t.ok(published.endsWith('{"title": "Summer sale"}'), published)
  t.match(previewed, /^\{"title": "Summer sale"\}\[\{"id":.*"name":"For Ada".*\}\]$/)
  t.match(again, /"published":false.*"published":true/s)
  t.match(scheduled, /"publish_at":"[\d-]+T17:00:00.000Z","unpublish_at":"[\d-]+T22:30:00.000Z"/)
  t.match(restored, /"label":"Summer sale".*"published":true/s)
})

t.test('an owner creates a webhook, tests it, and gives it a new secret', async (t) => {
  const { folder, url } = await startInFolder(t, RECEIVABLE)
  const receiver = await startReceiver(t)
  const [account = ''] = blocksOf('Set up')
  const commands = blocksOf('Webhooks').map((block) =>
    block.replace('https://build.example.com/hooks', receiver.url)
  )
  const [, created = '', tested = '', changed = ''] = await paste([account, ...commands], folder, url)
  t.match(JSON.parse(created), { name: 'Website build', secret: /^whsec_/ })
  t.match(JSON.parse(tested), [{ type: 'webhook.test' }])
  t.match(changed, /^\{"secret":"whsec_.*\}\{.*"active":true/)
  t.match(await receiver.message(1), { type: 'webhook.test' })
})

t.test('an owner uses the command line', async (t) => {
  const { folder, url } = await startInFolder(t)
  const commands = blocksOf('Command line').map((block) => block.replace('/path/to/landfall', PROJECT))
  const [, , , shown = '', imported = ''] = await paste([...blocksOf('Set up'), ...commands], folder, url)
  const lines = shown.split('\n').map((line) => line.replace(/ .*$/, ''))
  t.match(lines, ['ID', /^[\w-]{36}$/, 'There', 'VERSION', '2', '1', '{"title":'])
  t.match(shown, /^There are no such pages$/m, 'no page is called "summer sale"')
  t.ok(shown.endsWith('\n{"title": "Draft"}'), shown)
  t.match(imported, /^lfp_\w+\nRESULT {3}FILE\ncreated {2}summer-sale\.json$/)
})

t.test('an owner gives a program a key, changes the password and deletes the account', async (t) => {
  const { folder, url } = await startInFolder(t)
  const blocks = [...blocksOf('Set up'), ...blocksOf('API keys'), ...blocksOf('Sessions and password')]
  const [, , , read = '', refused = '', listed = '', sessions = '', changed] = await paste(
    blocks,
    folder,
    url
  )
  t.match(JSON.parse(read), { current_data: { title: 'Draft' } })
  t.same(JSON.parse(refused), { errors: ['API key lacks the scope pages:write'] })
  const [list = '', afterwards = ''] = listed.split(/(?<=\])(?=\{)/)
  t.match(JSON.parse(list), [{ name: 'Report', scopes: ['pages:read'] }, { name: 'My scripts' }])
  t.same(JSON.parse(afterwards), { errors: ['API key is mistyped, deleted or expired'] })
  t.match(JSON.parse(sessions), [{ current: true }, { current: false }])
  t.equal(changed, '')

  const { key } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8'))
  const { access_token: first } = JSON.parse(readFileSync(join(folder, 'account.json'), 'utf8'))
  for (const token of [key, first]) {
    const headers = { authorization: `Bearer ${token}` }
    t.equal((await fetch(`${url}/manage/landing_pages`, { headers })).status, 401)
  }
  const signIn = await fetch(`${url}/auth/sign_in`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ user: { email: 'owner@example.com', password: 'staple battery' } })
  })
  t.equal(signIn.status, 200)

  const { access_token: token } = await signIn.json() as { access_token: string }
  await paste([`TOKEN=${token}\n`, ...blocksOf('Delete the account')], folder, url)
  const page = JSON.parse(readFileSync(join(folder, 'page.json'), 'utf8'))
  t.equal((await fetch(`${url}/landing_pages/${page.public_id}`)).status, 404)
})
