import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { landfall, type RunOptions } from '../../helpers/cli.ts'
import { Owner } from '../../helpers/client.ts'
import { temporaryFolder } from '../../helpers/service.ts'

// The owner's commands that create, import and publish pages, and upload assets.

const { url } = await startServiceOnPostgres(t)
const owner = await Owner.signUp(url)
const ENV = { LANDFALL_URL: url, LANDFALL_KEY: owner.accessToken }

const run = async (args: string[], options: RunOptions = {}) => await landfall(ENV, args, options)
const pages = async (...args: string[]) => await run(['pages', ...args])
const stateOf = async (publicId: string) => (await fetch(`${url}/landing_pages/${publicId}`)).status

t.test('import makes each file of a folder a page, and goes on where it stopped', async (t) => {
  const folder = temporaryFolder(t)
  const write = (name: string, text: string | Uint8Array) => writeFileSync(join(folder, name), text)
  const text = '{"price": 1.50,\r\n "a": 1, "a": 2}\n'
  write('shop.json', text)
  write('a.b_c-1.json', '[]')
  write('notes.txt', 'no page')
  mkdirSync(join(folder, 'sub'))
  writeFileSync(join(folder, 'sub', 'inner.json'), '{}')

  const summary = async () => {
    const { code, stdout, stderr } = await pages('import', folder, '--json')
    return {
      code,
      stderr,
      files: JSON.parse(stdout).map(({ file, result }: Record<string, string>) => `${result} ${file}`)
    }
  }
  t.same(await summary(), {
    code: 0,
    stderr: '2 created, 0 changed, 0 same, 0 failed\n',
    files: ['created a.b_c-1.json', 'created shop.json']
  })
  const listed = JSON.parse((await pages('list', '--json', '--search', 'shop')).stdout)
  t.match(listed, [{ key: 'shop', version: 1 }])
  t.equal((await pages('get', listed[0].id)).stdout, text)

  write('a.b_c-1.json', '[1]')
  write('new.json', '{}')
  t.match(await pages('import', folder), {
    code: 0,
    stdout: 'RESULT   FILE\nchanged  a.b_c-1.json\ncreated  new.json\nsame     shop.json\n',
    stderr: '1 created, 1 changed, 1 same, 0 failed\n'
  })

  const key = /can't have this key/
  const bad: Record<string, readonly [content: string | Uint8Array, said: RegExp]> = {
    'UPPER.json': ['{}', key],
    '..json': ['{}', key],
    '.json': ['{}', key],
    'é.json': ['{}', key],
    'esc\u001b[2J.json': ['{}', /\ufffd\[2J\.json: .*can't have this key/],
    'half.json': ['{"a":', /half\.json: The document is not valid JSON \(line 1, column 6\)/],
    'latin.json': [
      Uint8Array.of(0x5b, 0x22, 0xe9, 0x22, 0x5d),
      /latin\.json: The document is not valid JSON/
    ],
    'text.json': ['"text"', /text\.json: .*JSON object or array/],
    'large.json': [`["${'x'.repeat(2 ** 20)}"]`, /large\.json: .*too large/],
    'huge.json': ['', /huge\.json: .*more than 268435456 bytes/]
  }
  for (const [name, [content]] of Object.entries(bad)) write(name, content)
  truncateSync(join(folder, 'huge.json'), 2 ** 28 + 1)
  symlinkSync('/etc/hostname', join(folder, 'link.json'))
  mkdirSync(join(folder, 'folder.json'))
  bad['link.json'] = ['', /link\.json: This is a link/]
  bad['folder.json'] = ['', /folder\.json: This is a link or not a file/]
  const { code, stderr, files } = await summary()
  t.equal(code, 1)
  t.match(stderr, /\n0 created, 0 changed, 3 same, 12 failed\n$/)
  t.notOk(stderr.includes('\u001b'))
  for (const [name, [, said]] of Object.entries(bad)) {
    t.match(stderr, said, name)
    t.ok(files.includes(`failed ${name}`), name)
  }
})

t.test('import ends at once if the service or the key refuses', async (t) => {
  const folder = temporaryFolder(t)
  for (const name of ['a', 'b']) writeFileSync(join(folder, `${name}.json`), '{}')
  for (
    const [env, said] of [
      [{ ...ENV, LANDFALL_URL: 'http://127.0.0.1:1' }, /can't be reached/],
      [{ ...ENV, LANDFALL_KEY: 'lf_nonsense' }, /Put another key into LANDFALL_KEY/]
    ] as const
  ) {
    const { code, stdout, stderr } = await landfall(env, ['pages', 'import', folder])
    t.match([code, stdout], [1, ''])
    t.match(stderr, said)
    t.equal(stderr.match(/LANDFALL_/g)?.length, 1, 'once, not for each file')
  }
  t.match(await pages('import', join(folder, 'missing')), {
    code: 1,
    stderr: /missing can't be read: ENOENT/
  })
})

t.test('a page is created, drafted, previewed, published, unpublished, deleted, restored and removed', async (t) => {
  const created = await run(['pages', 'create', '--key', 'cli', '--unpublished', '--json'], {
    input: '{"v": 1}'
  })
  t.equal(created.code, 0, created.stderr)
  const { id, public_id: publicId, ...rest } = JSON.parse(created.stdout)
  t.same(rest, { key: 'cli', version: 1, published: false })
  t.equal(await stateOf(publicId), 404)
  t.match(await run(['pages', 'create', '--key', 'cli'], { input: '{}' }), {
    code: 1,
    stderr: `Key has already been taken by page ${id}\n`
  })

  t.match(await pages('draft', id), {
    code: 1,
    stdout: '',
    stderr: /^The page has no draft\n"pages draft ID FILE" writes one/
  })
  t.equal((await run(['pages', 'draft', id, '-'], { input: '{"v": 2}' })).code, 0)
  const { stdout, stderr } = await pages('draft', 'key:cli')
  t.equal(stdout, '{"v": 2}')
  const link = await pages('preview', id, '--name', 'Ann', '--expires-in', '300')
  const readPreview = async () =>
    await fetch(`${url}/previews/${publicId}`, { headers: { authorization: `Bearer ${link.stdout.trim()}` } })
  t.equal(await (await readPreview()).text(), '{"v": 2}')
  const [{ id: linkId, ...listed }] = JSON.parse((await pages('preview', id, '--list', '--json')).stdout)
  t.match(listed, { name: 'Ann' })
  t.equal((await pages('preview', id, '--revoke', linkId)).code, 0)
  t.equal((await readPreview()).status, 401)
  t.equal((await pages('preview', id, '--list')).stdout, 'There are no preview links of this page\n')
  t.match(await pages('preview', id, '--expires-in', '1'), { code: 1, stderr: /expires_in|Expires in/ })
  t.match(await pages('publish', id, '--if-match', 'x'), { code: 1, stderr: /Somebody has changed/ })
  t.match(await pages('publish', id, '--wait', '61'), { code: 2, stderr: /Use 1 to 60 seconds/ })
  const published = await pages(
    'publish',
    id,
    '--if-match',
    stderr.replace('ETag: ', '').trim(),
    '--wait',
    '10'
  )
  t.match(published, { code: 0, stderr: /Readers get it everywhere\n$/ })
  t.equal(await (await fetch(`${url}/landing_pages/${publicId}`)).text(), '{"v": 2}')
  t.match(await pages('publish', id), { code: 0, stderr: /^Nothing to publish: .*\. ETag: "/ })
  await run(['pages', 'draft', id, '-'], { input: '[]' })
  const time = '2100-01-31T08:00:00Z'.replace('2100', String(new Date().getFullYear() + 1))
  const isSet = `publish    never\nunpublish  ${time.replace('Z', '.000Z')}\n`
  t.equal((await pages('schedule', 'key:cli', '--unpublish-at', time)).stdout, isSet)
  t.equal((await pages('schedule', id)).stdout, isSet)
  t.match(
    (await pages('list')).stdout,
    new RegExp(`^${id} .*  published, draft, unpublish ${time.slice(0, 10)} 08:00`, 'm')
  )
  t.match(await pages('schedule', id, '--publish-at', 'tomorrow'), { code: 1, stderr: /time with an offset/ })
  const earlier = time.replace('T08', 'T07')
  const isBoth = isSet.replace('never', earlier.replace('Z', '.000Z'))
  t.equal((await pages('schedule', id, '--publish-at', earlier)).stdout, isBoth, 'the other time stays')
  t.equal((await pages('schedule', id, '--publish-at', 'never')).stdout, isSet)
  t.match(JSON.parse((await pages('schedule', id, '--remove', '--json')).stdout), { unpublish_at: null })
  t.equal((await pages('draft', id, '--discard')).code, 0)
  t.equal((await pages('unpublish', id)).code, 0)
  t.equal(await stateOf(publicId), 404)

  t.match(await pages('delete', id, '--if-match', 'x'), { code: 1, stderr: /Somebody has changed/ })
  t.match(await pages('delete', 'key:cli'), { code: 0, stdout: `Deleted ${id}\n` })
  t.match(JSON.parse((await pages('trash', 'list', '--json')).stdout), [{ id, key: 'cli' }])
  t.match(await pages('trash', 'restore', id), {
    code: 0,
    stderr: /^Restored, unpublished and without a schedule/
  })
  const states = (await pages('history', id)).stdout.match(/(not )?published/g)
  t.same(states, ['not published', 'not published', 'not published', 'published', 'not published'])
  t.match(await pages('get', 'key:other'), { code: 1, stdout: '', stderr: /^Not found\n.*key:NAME/ })
  t.equal((await pages('delete', id)).code, 0)
  t.match(await pages('trash', 'remove', id), { code: 0, stdout: `Removed ${id}\n` })
  t.equal((await pages('trash', 'list')).stdout, 'The trash is empty\n')
})

t.test('assets are uploaded and listed', async (t) => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'größe.txt')
  writeFileSync(file, 'text')
  const uploaded = await run(['assets', 'upload', file])
  t.equal(uploaded.code, 0, uploaded.stderr)
  t.equal(await (await fetch(uploaded.stdout.trim())).text(), 'text')
  t.match(JSON.parse((await run(['assets', 'list', '--json'])).stdout), [{
    filename: 'größe.txt',
    byte_size: 4
  }])
  for (
    const [name, said] of [[folder, /it is not a file/], ['/dev/zero', /it is not a file/], [
      'none',
      /ENOENT/
    ]] as const
  ) {
    t.match(await run(['assets', 'upload', name]), { code: 1, stdout: '', stderr: said })
  }
})
