import { createServer, type RequestListener } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { landfall, type RunOptions } from '../../helpers/cli.ts'
import { Owner } from '../../helpers/client.ts'
import { secretsIn } from '../../helpers/secrets.ts'
import { freePort, listen } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'

// The owner's commands without a terminal, on a machine without the settings of the service.

const { url } = await startServiceOnPostgres(t)
const owner = await Owner.signUp(url)
const ENV = { LANDFALL_URL: url, LANDFALL_KEY: owner.accessToken }
const UNKNOWN_ID = '019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'

/** Runs a `pages` command in an empty folder, and checks that its output contains no secret. */
async function pages (t: Test, args: string[], options: RunOptions = {}, env: Record<string, string> = ENV) {
  const outcome = await landfall(env, ['pages', ...args], { cwd: temporaryFolder(t), ...options })
  const { LANDFALL_KEY = '' } = env
  t.same(secretsIn(outcome.stdout + outcome.stderr, {}, LANDFALL_KEY === '' ? {} : { LANDFALL_KEY }), [])
  return outcome
}

/** Starts a server that is not Landfall. */
const serve = async (t: Test, listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listen(t, createServer(listener))}`

t.test('put and get keep every byte', async (t) => {
  const { id, public_id: publicId } = await owner.createPage(url, '{}')
  const file = join(temporaryFolder(t), 'document.json')
  const documents = [
    '{"a": 1}',
    '{"a": 1}\n',
    '\r\n{\r\n\t"a": 1.0,\r\n\t"a": 1e400,\r\n\t"b": [-0, 12345678901234567890]\r\n}\r\n\n',
    '["\\ud800", "\\u00e9\\/", "é\u202e\u007f\u{1f600}", "\\u0000"]',
    `["${'x'.repeat(2 ** 20 - 5)}"]\n`
  ]
  for (const [index, document] of documents.entries()) {
    writeFileSync(file, document)
    const name = `${index}: ${document.slice(0, 20)}`
    const written = index % 3 === 0 ? await pages(t, ['put', id, file])
      : await pages(t, index % 3 === 1 ? ['put', id] : ['put', id, '-'], { input: document })
    t.match(written, { code: 0, stdout: '', stderr: /^ETag: "[\w-]{43}"\n$/ }, name)
    const read = await pages(t, ['get', id])
    t.same({ ...read, stdout: '' }, { code: 0, stdout: '', stderr: written.stderr }, name)
    t.ok(read.stdout === document, name)
    t.ok(await (await fetch(`${url}/landing_pages/${publicId}`)).text() === document, name)
  }
  t.equal((await pages(t, ['get', id, '--revision=2'])).stdout, documents[0])
  t.match(await pages(t, ['get', id, '--revision=9']), { code: 1, stdout: '', stderr: /^Not found\n/ })
})

t.test('--if-match protects the changes of others', async (t) => {
  const { id, etag } = await owner.createPage(url, '{"n":1}')
  const put = async (n: number, ifMatch: string) =>
    await pages(t, ['put', id, `--if-match=${ifMatch}`], { input: `{"n":${n}}` })
  const second = await put(2, etag)
  t.match(second, { code: 0, stderr: /^ETag: / })
  const changed = {
    code: 1,
    stdout: '',
    stderr: /^The resource has changed.*\nSomebody has changed the page meanwhile, and nothing was written: /
  }
  t.match(await put(3, etag), changed)
  t.match(await pages(t, ['restore', id, '1', '--if-match', etag]), changed)
  t.match(await pages(t, ['edit', id, '--if-match', etag]), changed)
  t.equal((await pages(t, ['get', id])).stdout, '{"n":2}')
  const withoutQuotes = second.stderr.slice('ETag: "'.length, -2)
  t.match(await pages(t, ['restore', id, '1', '--if-match', withoutQuotes]), { code: 0, stdout: '' })
  t.match(await put(4, '*'), { code: 0 })
  for (const ifMatch of ['"a", "b"', 'W/"a"', 'a\nb']) t.match(await put(5, ifMatch), { code: 2, stdout: '' })
  t.equal((await pages(t, ['get', id])).stdout, '{"n":4}')
})

t.test('list and history show pages and versions, as tables and as JSON', async (t) => {
  const other = await Owner.signUp(url)
  const env = { LANDFALL_URL: `${url}/`, LANDFALL_KEY: other.accessToken }
  const run = async (...args: string[]) => await pages(t, args, {}, env)
  t.same(await run('list'), { code: 0, stdout: 'There are no pages yet\n', stderr: '' })
  t.same(await run('list', '--json'), { code: 0, stdout: '[]\n', stderr: '' })
  const first = await other.createPage(url, '{"size": 1.0}')
  await other.update(url, first.id, '{"current_data": "é"}')
  for (let n = 0; n < 101; n++) await other.createPage(url, '[]')

  const table = (await run('list')).stdout.split('\n')
  t.match(table[0], /^ID +PUBLIC ID +VERSION +SIZE +CHANGED +STATE +KEY +LABEL$/)
  t.equal(table.length, 1 + 102 + 1, 'more than one part')
  t.match(
    table[102],
    new RegExp(`^${first.id}  ${first.public_id}  2 +22 bytes  \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d  published$`)
  )
  const listed = JSON.parse((await run('list', '--json')).stdout)
  t.equal(new Set(listed.map(({ id }: { id: string }) => id)).size, 102)
  t.match(listed[101], { id: first.id, public_id: first.public_id, version: 2, byte_size: 22 })
  t.same(Object.keys(listed[0]), [
    ...'id public_id key label byte_size version published has_draft publish_at unpublish_at'.split(' '),
    ...'created_at updated_at'.split(' ')
  ])
  await other.createPage(url, '{"title": "Été à Paris"}')
  t.match((await run('list', '--search', 'ete a p', '--sort=label')).stdout, /^ID .*\n.* Été à Paris\n$/)
  t.equal((await run('list', '--search', '%')).stdout, 'There are no such pages\n')
  t.match(await run('list', '--sort', 'size'), { code: 2, stderr: /created, updated, label/ })

  t.match(await run('restore', first.id, '1'), { code: 0, stdout: '', stderr: /^ETag: "[\w-]{43}\.3"\n$/ })
  t.equal((await run('get', first.id)).stdout, '{"size": 1.0}')
  t.match((await run('history', first.id)).stdout.split('\n'), [
    /^VERSION +SIZE +WRITTEN +STATE +BY +RESTORED FROM$/,
    new RegExp(`^3 +13 bytes +\\S+ \\S+ +published +${other.email} +1$`),
    new RegExp(`^2 +22 bytes +\\S+ \\S+ +published +${other.email}$`),
    /^1 /,
    ''
  ])
  t.match(JSON.parse((await run('history', first.id, '--json')).stdout), [
    { version: 3, restored_from: 1, etag: first.etag, byte_size: 13 },
    { version: 2, author: { type: 'user', name: other.email } },
    { version: 1 }
  ])
})

t.test('edit stores what a script saves', async (t) => {
  const { id } = await owner.createPage(url, '{"price": 1.0}')
  const TMPDIR = temporaryFolder(t)
  const edit = async (EDITOR: string, env = {}) =>
    await pages(t, ['edit', id], {}, { ...ENV, TMPDIR, EDITOR, ...env })
  const left = 'find "$TMPDIR" -type f'
  const listLeft = async () => (await landfall({ TMPDIR }, [], { command: ['sh', '-c', left] })).stdout

  t.match(await edit('sed -i s/1.0/2.50/'), { code: 0, stdout: '', stderr: /^ETag: "[\w-]{43}"\n$/ })
  t.equal((await pages(t, ['get', id])).stdout, '{"price": 2.50}')
  const nothing = { code: 0, stdout: '', stderr: 'Nothing was changed\n' }
  t.same(await edit('true'), nothing)
  t.same(await edit('echo >>'), nothing, 'only a line break at the end')
  t.match(await edit('stat -c "%a %U" "$1" "$(dirname "$1")" >&2; true'), { stderr: /^600 (\w+)\n700 \1\n/ })
  t.match(await edit('exit 3; true'), {
    code: 1,
    stderr: 'The editor exit 3; true ended with 3: nothing was changed\n'
  })
  t.match(await edit('sed -i s/2.50/3/', { VISUAL: 'sed -i s/2.50/4/' }), { code: 0 })
  t.equal((await pages(t, ['get', id])).stdout, '{"price": 4}')
  t.equal(await listLeft(), '', 'no file is left')

  // Somebody changes the page while it is edited.
  await owner.update(url, id, '{"price": 5}')
  const meanwhile =
    `curl -sS -o /dev/null -X PUT ${url}/manage/landing_pages/${id}/document -H "Authorization: Bearer ` +
    '$LANDFALL_KEY" ' +
    "-H 'Content-Type: application/json' -d '{\"price\": 6}'; sed -i s/5/7/"
  const { code, stderr } = await edit(meanwhile)
  t.equal(code, 1)
  const [, kept = ''] = /changed the page meanwhile.*\nYour text is in (\S+)\n$/s.exec(stderr) ?? []
  t.equal(await listLeft(), `${kept}\n`)
  t.match(await pages(t, ['put', id, kept]), { code: 0 })
  t.equal((await pages(t, ['get', id])).stdout, '{"price": 7}')
  t.match(await edit('echo "}" >>'), {
    code: 1,
    stderr: /\(line 1, column 13\): nothing was written\nYour text is in /
  })
})

t.test('a key that may only read lists pages, and is refused what changes them', async (t) => {
  const { id } = await owner.createPage(url, '{"kept": true}')
  const env = { ...ENV, LANDFALL_KEY: await owner.createKey(url, ['pages:read']) }
  const { code, stdout } = await pages(t, ['list'], {}, env)
  t.equal(code, 0)
  t.match(stdout, id)
  t.equal((await pages(t, ['get', id], {}, env)).stdout, '{"kept": true}')
  const refused = `API key lacks the scope pages:write
The scopes of a key can't be changed: create a key that also has this one, and put it into LANDFALL_KEY
`
  for (const args of [['put', id], ['restore', id, '1']]) {
    t.same(await pages(t, args, { input: '{}' }, env), { code: 1, stdout: '', stderr: refused })
  }
  const EDITOR = 'sed -i s/true/false/'
  const edited = await pages(t, ['edit', id], {}, { ...env, EDITOR, TMPDIR: temporaryFolder(t) })
  t.match(edited, { code: 1, stdout: '' })
  t.ok(edited.stderr.startsWith(`${refused}Your text is in /`))
  t.equal((await pages(t, ['get', id])).stdout, '{"kept": true}')
})

t.test('errors say what to do', async (t) => {
  const { id } = await owner.createPage(url, '{}')
  const notFound = { code: 1, stdout: '', stderr: /^Not found\n.*pages list/ }
  for (const args of [['get'], ['history'], ['put'], ['edit']]) {
    t.match(await pages(t, [...args, UNKNOWN_ID], { input: '{}' }), notFound)
  }
  t.match(await pages(t, ['restore', id, '7']), notFound)

  const list = async (env: Record<string, string>) => await pages(t, ['list'], {}, { ...ENV, ...env })
  t.match(await list({ LANDFALL_KEY: 'expired.or.wrong' }), {
    code: 1,
    stdout: '',
    stderr: /^Missing or invalid access token\nLANDFALL_KEY must be an API key \(lf_…\), or an access token, /
  })
  t.match(await list({ LANDFALL_KEY: `lf_${'x'.repeat(46)}` }), {
    code: 1,
    stdout: '',
    stderr: /^API key is mistyped, deleted or expired\nPut another key into LANDFALL_KEY; /
  })
  for (const LANDFALL_KEY of ['', 'a\nb']) {
    t.match(await list({ LANDFALL_KEY }), {
      code: 2,
      stdout: '',
      stderr: /^LANDFALL_KEY must be an API key /
    })
  }
  for (const LANDFALL_URL of ['localhost:3000', 'http://me:hunter2@localhost', `${url}?a=1`]) {
    t.match(await list({ LANDFALL_URL }), {
      code: 2,
      stdout: '',
      stderr: /^LANDFALL_URL must be an address /
    })
  }
  const LANDFALL_URL = `http://localhost:${await freePort()}`
  t.same(await list({ LANDFALL_URL }), {
    code: 1,
    stdout: '',
    stderr: `${LANDFALL_URL} can't be reached (ECONNREFUSED): is LANDFALL_URL right?\n`
  })
  for (const args of [['get', '..'], ['get', 'key:A'], ['restore', id, '0'], ['get', id, '--revision=x']]) {
    t.match(await pages(t, args), { code: 2, stdout: '', stderr: /is invalid/ })
  }
})

t.test('the key reaches no other host, and other servers are recognised', async (t) => {
  const keys: unknown[] = []
  const other = await serve(t, ({ headers }, response) => {
    keys.push(headers.authorization)
    response.end()
  })
  const answering = async (status: number, headers: Record<string, string>, body = '') => {
    const LANDFALL_URL = await serve(t, (_request, response) => response.writeHead(status, headers).end(body))
    const { code, stdout, stderr } = await pages(t, ['list'], {}, { ...ENV, LANDFALL_URL })
    t.match({ code, stdout }, { code: 1, stdout: '' })
    return stderr.replaceAll(LANDFALL_URL, 'URL')
  }
  t.equal(
    await answering(308, { location: `${other}/manage\u009b` }),
    `URL redirects to ${other}/manage\ufffd: set LANDFALL_URL to the address of the service itself\n`
  )
  t.equal(
    await answering(200, { 'content-type': 'text/html' }, '<p>Hello'),
    'URL does not answer like Landfall: is LANDFALL_URL right?\n'
  )
  t.equal(
    await answering(502, { 'content-type': 'text/html' }, '<p>Oops'),
    'The response was 502 Bad Gateway\n'
  )
  const json = { 'content-type': 'application/json' }
  t.equal(
    await answering(400, json, JSON.stringify({ errors: ['a\u001b[2Jb\u202e'] })),
    'a\ufffd[2Jb\ufffd\n'
  )
  t.equal(await answering(200, json, '{}'), 'URL does not answer like Landfall: is LANDFALL_URL right?\n')
  t.same(keys, [])

  // A Link to another host doesn't lead there either.
  let asked = 0
  const LANDFALL_URL = await serve(t, (_request, response) => {
    const next = ++asked < 3 ? { link: `<${other}/manage/landing_pages?cursor=${asked}>; rel="next"` } : {}
    response.writeHead(200, { ...json, ...next }).end('[]')
  })
  t.match(await pages(t, ['list'], {}, { ...ENV, LANDFALL_URL }), { code: 0 })
  t.same([asked, keys], [3, []])
})
