import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { isPublic } from '../../src/client/transport.ts'
import { buildTestApp } from '../helpers/app.ts'
import { PROJECT, temporaryFolder } from '../helpers/service.ts'
import { API_FILE, apiTypes } from './generate-api.ts'
import { failure } from './helpers.ts'

const run = promisify(execFile)
const app = await buildTestApp(t)

t.test('the types are those of the OpenAPI document', async (t) => {
  t.ok(await apiTypes(app) === readFileSync(API_FILE, 'utf8'), 'src/client/api.ts is out of date: run "npm run generate:client" and commit it')
})

t.test('a token goes to the routes that need one, and to no other', async (t) => {
  const { paths } = (await app.inject('/openapi.json')).json<{ paths: Record<string, Record<string, { security?: unknown[] }>> }>()
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { security = [] }] of Object.entries(operations)) {
      if (method === 'options') continue // browsers send it by themselves
      const example = path.replaceAll(/\{\w+\}/g, 'x')
      t.equal(isPublic(method.toUpperCase(), `${example}?limit=1`), security.length === 0, `${method} ${path}`)
    }
  }
})

t.test('the packed package', async (t) => {
  const folder = temporaryFolder(t)
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: PROJECT, maxBuffer: 2 ** 26 })
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string, files: { path: string }[] }]
  t.same(files.filter(({ path }) => /^(src|test|bench|data|uploads)\//.test(path)), [], 'holds what is built, not what it is built from')

  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'landfall'), { recursive: true })
  await run('tar', ['-xzf', join(folder, filename), '-C', join(modules, 'landfall'), '--strip-components=1'])
  // What npm would install beside it.
  for (const name of ['openapi-fetch', 'openapi-typescript-helpers']) symlinkSync(join(PROJECT, 'node_modules', name), join(modules, name))
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}')

  t.test('is imported by plain Node', async (t) => {
    const script = "import * as client from 'landfall/client'; console.log(Object.keys(client).sort().join())"
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: folder })
    t.equal(stdout, 'LandfallError,PreconditionFailedError,createLandfallClient,exactJson,memoryTokens,webStorageTokens\n')
  })

  t.test('keeps the rest of the service to itself', async (t) => {
    t.match(await failure(run(process.execPath, ['--input-type=module', '-e', "import 'landfall/dist/app.js'"], { cwd: folder })), { stderr: /ERR_PACKAGE_PATH_NOT_EXPORTED/ })
  })

  t.test('has types, for bundlers and for Node', async (t) => {
    writeFileSync(join(folder, 'consumer.ts'), `
      import { createLandfallClient, LandfallError, type LandingPage } from 'landfall/client'
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
      // @ts-expect-error there is no such route
      await landfall.api.GET('/nowhere')
      // @ts-expect-error a password is needed
      await landfall.auth.signIn({ email: 'you@example.com' })
      // @ts-expect-error of what type is it?
      await landfall.assets.upload('dot.png')
    `)
    const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc')
    for (const [module, moduleResolution] of [['node16', 'node16'], ['esnext', 'bundler']] as const) {
      const { stdout } = await run(process.execPath, [tsc, '--ignoreConfig', '--noEmit', '--strict', '--skipDefaultLibCheck', '--target', 'es2022', '--module', module, '--moduleResolution', moduleResolution, 'consumer.ts'], { cwd: folder })
        .catch((error: { stdout: string }) => error)
      t.equal(stdout, '', moduleResolution)
    }
  })
})
