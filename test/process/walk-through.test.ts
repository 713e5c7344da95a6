import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDatabase, claimRedis } from '../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder, type Service } from '../helpers/service.ts'

// The README and the guide to the client, followed to the letter.

const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8')

/** The commands of a section, one string for each block. */
function blocksOf (heading: string): string[] {
  const section = readme.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
}

/** Runs blocks one after the other in one shell, as somebody does who pastes them; gives what each printed. */
async function paste (blocks: string[], cwd: string, url: string): Promise<string[]> {
  const mark = '=== next block ==='
  const script = blocks.join(`echo; echo '${mark}'\n`).replaceAll('http://localhost:3000', url)
  const shell = spawn('bash', ['-eu', '-o', 'pipefail', '-c', script], { cwd, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  shell.stdout.on('data', (data: Buffer) => { output += data.toString() })
  const code = await new Promise((resolve) => shell.on('close', resolve))
  if (code !== 0) throw new Error(`the commands ended with ${code} after:\n${output}`)
  return output.split(`\n${mark}\n`).map((part) => part.trim())
}

async function walkThrough (t: Test, { url }: Service): Promise<void> {
  const blocks = blocksOf('Walk through')
  t.equal(blocks.length, 6)
  const [signUp = '', create = '', read = '', replace = '', upload = '', rest = ''] = await paste(blocks, temporaryFolder(t), url)
  t.match(JSON.parse(signUp), { user: { email: 'you@example.com' }, access_token: String, refresh_token: String })
  t.match(create, /"current_data":\{"title": "Hello", "price": 1\.0\},"created_at"/, 'not a byte changed')
  t.match(read, /^HTTP\/1\.1 200 OK/)
  t.match(read, /\r\n\r\n\{"title": "Hello", "price": 1\.0\}$/)
  t.match(read, /etag: "[\w-]{43}"/i)
  t.match(replace, /"current_data":\{"title": "Hello again"\}.*\{"title": "Hello again"\}$/)
  t.match(upload, new RegExp(`"content_type":"image/png".*"width":1,"height":1,"url":"${url}/uploads/`))
  t.match(upload, /dot-again\.png$/)
  t.match(rest, /^\[\{"id":".*"current_data":\{"title": "Hello again"\}.*"filename":"dot\.png".*HTTP\/1\.1 204 No Content/s)
}

/** Runs the first script of docs/client.md. */
async function clientScript (t: Test, { url }: Service): Promise<void> {
  const [, script = ''] = /^```js\n([\s\S]*?)^```$/m.exec(readFileSync(join(PROJECT, 'docs/client.md'), 'utf8')) ?? []
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(PROJECT, join(folder, 'node_modules/landfall'))
  writeFileSync(join(folder, 'dot.png'), Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'))
  writeFileSync(join(folder, 'page.mjs'), script.replaceAll('http://localhost:3000', url))
  const [output = ''] = await paste(['node page.mjs\n'], folder, url)
  t.match(output.split('\n'), [
    /^The resource has changed/,
    'true true true',
    new RegExp(`^[\\w-]{36} {"title":"Hello","picture":"${url}/uploads/[^"]+"}$`)
  ])
}

t.test('on the embedded database, with npm start', async (t) => {
  t.equal(blocksOf('Run it')[0], 'npm ci && npm start\n')
  const folder = temporaryFolder(t)
  const writtenAt = () => ['app.js', 'client/index.js', 'client/index.d.ts'].map((name) => statSync(join(PROJECT, 'dist', name)).mtimeMs)
  const before = writtenAt()
  const service = await startService(t, { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }, ['npm', 'start'])
  t.same(writtenAt(), before, 'what is built already is not written again under others that start')
  t.match(service.output(), `Landfall listens on ${service.url}`)
  t.match(service.output(), `Database  ${folder}/data`)
  t.match(service.output(), /Embedded mode/)
  t.match(service.output(), `curl -s ${service.url}/auth/sign_up`)
  await walkThrough(t, service)
})

t.test('the first command that the service prints works as printed', async (t) => {
  const folder = temporaryFolder(t)
  const service = await startService(t, { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') })
  const command = / {2}(curl [\s\S]*?\n)\n/.exec(service.output())?.[1] ?? 'false'
  const [answer = ''] = await paste([command], folder, service.url)
  t.match(JSON.parse(answer), { user: { email: 'you@example.com' } })
})

t.test('on PostgreSQL and Redis', async (t) => {
  const [, byHand = '', migrate = ''] = blocksOf('Deploy')
  t.match(byHand, /^npm ci --include=dev && npm run build\nexport DATABASE_URL=\S+ REDIS_URL=\S+\nexport JWT_SECRET=\S+ rand -hex 32\)\nnpx landfall serve\n$/)
  t.equal(migrate, 'npx landfall migrate\n')
  const env = { DATABASE_URL: await createDatabase(t), REDIS_URL: await claimRedis(t), JWT_SECRET: 'x'.repeat(32), UPLOADS_DIR: temporaryFolder(t), MIGRATE_ON_START: 'false' }
  await new Promise<void>((resolve, reject) => {
    spawn('npx', ['landfall', 'migrate'], { cwd: PROJECT, env: { ...process.env, ...env }, stdio: 'ignore' })
      .on('exit', (code) => { if (code === 0) resolve(); else reject(new Error(`npx landfall migrate ended with ${code}`)) })
  })
  const service = await startService(t, env)
  t.notMatch(service.output(), /Embedded mode/)
  await walkThrough(t, service)
  await clientScript(t, service)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('the deployment files name only settings that exist', async (t) => {
  const { default: settings } = await import('../../src/config.ts').then(({ loadConfig }) => ({ default: Object.keys(loadConfig({})) }))
  const compose = readFileSync(join(PROJECT, 'docker-compose.yml'), 'utf8')
  const service = compose.slice(compose.indexOf('\n  landfall:'))
  for (const [, name = ''] of service.matchAll(/^ {6}([A-Z_]+): /gm)) t.ok(settings.includes(name), name)
  t.equal(blocksOf('Deploy')[0], 'JWT_SECRET=$(openssl rand -hex 32) docker compose up --build\n')
  t.equal(blocksOf('Test')[0], 'npm test\n')
  for (const [, row = ''] of readme.matchAll(/^\| (`[A-Z_`, ]+`) \|/gm)) {
    for (const [, name = ''] of row.matchAll(/`([A-Z_]+)`/g)) t.ok(settings.includes(name), name)
  }
})
