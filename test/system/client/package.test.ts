import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { PNG } from '../../helpers/assets.ts'
import { startApp } from '../../helpers/api-client.ts'
import { installClient, readmeBlock, readmeBlocks, runInProject } from './installed-client.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'

// Tests the client as users get it: packed, and installed into an empty folder.

const run = promisify(execFile)
const service = await startApp(t)
const folder = await installClient(t, service.url)

t.test('the package is small and complete, and depends on one library', async (t) => {
  const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  const { size } = statSync(join(folder, tarball))
  t.ok(size < 70_000, `${size} bytes`)
  t.same(
    Object.keys(JSON.parse(readFileSync(join(folder, 'node_modules/.package-lock.json'), 'utf8')).packages),
    ['node_modules/@landfall/client', 'node_modules/openapi-fetch', 'node_modules/openapi-typescript-helpers']
  )
  const installed = join(folder, 'node_modules/@landfall/client')
  t.same(readdirSync(installed).sort(), ['LICENSE', 'README.md', 'dist', 'package.json'])
  const modules = readdirSync(join(PROJECT, 'packages/client/src')).map((name) => name.replace(/\.ts$/, ''))
  t.same(
    readdirSync(join(installed, 'dist')).sort(),
    ['index.js', ...modules.map((name) => `${name}.d.ts`)].sort()
  )
  t.equal(readFileSync(join(installed, 'LICENSE'), 'utf8'), readFileSync(join(PROJECT, 'LICENSE'), 'utf8'))
})

t.test('a lock file with the package works without the service, or while the service has the same release', async (t) => {
  const other = temporaryFolder(t)
  await runInProject(other, `npm install ${service.url}/client.tgz; rm -r node_modules; npm ci`)
  t.ok(statSync(join(other, 'node_modules/@landfall/client/dist/index.js')).isFile())
  await service.app.close()
  await runInProject(folder, 'rm -r node_modules; npm ci')
})

t.test('Node can import the entry point of the package and nothing else', async (t) => {
  const evaluate = async (script: string) =>
    await run(process.execPath, ['--input-type=module', '-e', script], { cwd: folder })
  const { stdout } = await evaluate("import * as client from '@landfall/client'; " +
    'console.log(Object.keys(client).sort().join())')
  t.equal(
    stdout,
    'ConflictError,InsufficientScopeError,LandfallError,NotFoundError,PreconditionFailedError,' +
      'WebhookVerificationError,createLandfallClient,exactJson,memoryTokens,srcset,verifyWebhook,' +
      'webStorageTokens\n'
  )
  await t.rejects(evaluate("import '@landfall/client/dist/session.js'"), /ERR_PACKAGE_PATH_NOT_EXPORTED/)
})

t.test('the types of the package work with bundlers and with Node', async (t) => {
  writeFileSync(
    join(folder, 'consumer.mts'),
    `
    import { createLandfallClient, LandfallError, memoryTokens, type LandingPage } from '@landfall/client'
    const landfall = createLandfallClient({ baseUrl: 'http://localhost:3000', retry: { maxRetries: 1 } })
    interface Product { title: string }
    export async function use (file: Blob): Promise<string> {
      const page: LandingPage<Product> = await landfall.landingPages.create<Product>({ title: 'Hello' })
      const { width } = await landfall.assets.upload(file)
      for await (const { created_at } of landfall.landingPages.list()) console.log(created_at, width)
      const { data, error } = await landfall.api.GET('/manage/landing_pages/{id}', { params: { path: { id: page.id } } })
      if (error !== undefined) throw new Error(error.errors.join())
      const { document } = await landfall.landingPages.read<Product>(data.public_id)
      return document.title
    }
    export const isMissing = (error: unknown): boolean => error instanceof LandfallError && error.status === 404
    // @ts-expect-error a status is a number
    export const isNot = (error: LandfallError): boolean => error.status === '404'
    const { key: apiKey } = await landfall.apiKeys.create({ name: 'Build', scopes: ['pages:read'], current_password: '' })
    createLandfallClient({ baseUrl: 'http://localhost:3000', apiKey })
    // @ts-expect-error a key needs no tokens
    createLandfallClient({ baseUrl: 'http://localhost:3000', apiKey, tokens: memoryTokens() })
    createLandfallClient({ baseUrl: 'http://localhost:3000', cookieSession: true })
    // @ts-expect-error a key needs no session
    createLandfallClient({ baseUrl: 'http://localhost:3000', apiKey, cookieSession: true })
    // @ts-expect-error there is no such scope
    await landfall.apiKeys.create({ name: 'Build', scopes: ['pages'], current_password: '' })
    // @ts-expect-error there is no such route
    await landfall.api.GET('/nowhere')
    // @ts-expect-error a password is required
    await landfall.auth.signIn({ email: 'you@example.com' })
    // @ts-expect-error a file is a Blob, not a name
    await landfall.assets.upload('dot.png')
  `
  )
  const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc')
  const withNode = ['--lib', 'es2023', '--types', 'node', '--typeRoots', join(PROJECT, 'node_modules/@types')]
  for (
    const options of [
      ['--module', 'node16', '--moduleResolution', 'node16', ...withNode],
      ['--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2023,dom,dom.iterable']
    ]
  ) {
    const { stdout } = await run(process.execPath, [
      tsc,
      '--ignoreConfig',
      '--noEmit',
      '--strict',
      '--skipDefaultLibCheck',
      '--target',
      'es2023',
      ...options,
      'consumer.mts'
    ], { cwd: folder })
      .catch((error: { stdout: string }) => error)
    t.equal(stdout, '', options.join(' '))
  }
})

t.test('the examples of the README run', async (t) => {
  const mail = await startMailServer(t)
  const { url } = await startApp(t, { BASE_URL: 'http://localhost:3000', ...mail.settings })
  const runExample = async (script: string) => {
    const text = script.replaceAll('http://localhost:3000', url)
    return (await run(process.execPath, ['--input-type=module', '-e', text], { cwd: folder })).stdout
  }

  t.match((await runExample(readmeBlock('Quick start'))).split('\n'), [
    'Hello',
    /^The resource has changed/,
    /^[\w-]{36} \{"title":"Hello again","file":"http:\/\/localhost:3000\/uploads\/[^"]+"\}$/,
    ''
  ])

  const forged =
    "new Request('http://localhost', { method: 'POST', body: '{}', headers: { 'webhook-id': 'a' } })"
  const secret = `whsec_${Buffer.alloc(32).toString('base64')}`
  t.equal(
    await runExample(`${
      readmeBlock('Webhooks')
    }\nconsole.log((await receive(${forged}, '${secret}')).status)`),
    '400\n'
  )

  // The later examples of the README assume that `landfall` has signed in and that `page` is one of its
  // pages.
  const preamble = `
    import { createLandfallClient } from '@landfall/client'
    const landfall = createLandfallClient({ baseUrl: 'http://localhost:3000' })
    await landfall.auth.signIn({ email: 'editor@example.com', password: 'correct horse' })
    const page = await landfall.landingPages.create({ title: 'Hello' })
    console.log(page.public_id)
  `
  writeFileSync(join(folder, 'dot.png'), PNG)
  const expected: [section: string, output: RegExp][] = [
    ['API keys', /\n\{"title":"Hello"\}\n[^]*\npages:write\n$/],
    ['Methods', /\nimage\/png 1 1\n$/],
    ['Methods', /^(\w{22})\n200 \1\n$/],
    ['Published documents', /\nHello\n$/],
    ['Exact JSON', /\n\{"price": 1\.0\}\n$/],
    ['Patches', /\n\{"title":"Hello","price":9\.90\}\nOperation 1 [^\n]+\n$/],
    ['Previews', /\n\{ title: 'Hello' \} false\ntrue\n$/],
    ['Versions', /\n2 editor@example\.com\n1 editor@example\.com\n3 true\n$/],
    ['Links of mails', /^\w{22}\n$/],
    ['Links of mails', /^\w{22}\n$/]
  ]
  // browser.test.ts runs the examples of "Browsers" and "Sessions in a cookie".
  const elsewhere = ['Quick start', 'Webhooks', 'Browsers', 'Sessions in a cookie']
  const examples = readmeBlocks().filter(({ section, language }) =>
    language !== 'sh' && !elsewhere.includes(section)
  )
  t.same(examples.map(({ section }) => section), expected.map(([section]) => section), 'every example is run')
  for (const [index, [section, output]] of expected.entries()) {
    const text = examples[index]?.text ?? ''
    // The last example is for a page of the user's own.
    const hash = text.includes('location') ? `#token=${await mail.linkTo('editor@example.com', 2)}` : ''
    const location = `globalThis.location = { hash: '${hash}' }\n`
    t.match(await runExample(location + preamble + text), output, section)
  }
})
