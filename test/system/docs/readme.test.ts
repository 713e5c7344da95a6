import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { testSettings } from '../../helpers/app.ts'
import { createDatabase, claimRedis } from '../../helpers/servers.ts'
import { PROJECT, runService, startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { commandsOf, paste } from './walk-through.ts'

// Runs the commands of README.md as they are written.

const readme = readFileSync(join(PROJECT, 'README.md'), 'utf8')

const blocksOf = (heading: string) => commandsOf(readme, heading)

async function walkThrough (t: Test, { url }: Service): Promise<void> {
  const blocks = blocksOf('Walk-through')
  t.equal(blocks.length, 6)
  const [signUp = '', create = '', read = '', replace = '', upload = '', rest = ''] = await paste(
    blocks,
    temporaryFolder(t),
    url
  )
  t.match(JSON.parse(signUp), {
    user: { email: 'you@example.com' },
    access_token: String,
    refresh_token: String
  })
  t.match(
    create,
    /"current_data":\{"title": "Hello", "price": 1\.0\},"created_at"/,
    'the document is unchanged'
  )
  t.match(read, /^HTTP\/1\.1 200 OK/)
  t.match(read, /\r\n\r\n\{"title": "Hello", "price": 1\.0\}$/)
  t.match(read, /etag: "[\w-]{43}"/i)
  t.match(
    replace,
    /"current_data":\{"title": "Hello", "price": 2\.5\}.*\{"errors":\["The resource has changed.*\{"title": "Hello", "price": 2\.5\}$/s
  )
  t.match(upload, new RegExp(`"content_type":"image/png".*"width":1,"height":1,"url":"${url}/uploads/`))
  t.match(upload, /dot-again\.png$/)
  t.match(
    rest,
    /^\[\{"id":".*"current_data":\{"title": "Hello", "price": 2\.5\}.*"filename":"dot\.png".*HTTP\/1\.1 204 No Content/s
  )
}

t.test('the walk-through and the printed command work with npm start and the embedded database', async (t) => {
  t.equal(blocksOf('Quick start')[0], 'npm ci && npm start\n')
  const folder = temporaryFolder(t)
  const writtenAt = () =>
    ['dist/app.js', 'dist/json-text/index.js', 'packages/client/dist/index.d.ts'].map((name) =>
      statSync(join(PROJECT, name)).mtimeMs
    )
  const before = writtenAt()
  const service = await startService(t, {
    DATA_DIR: join(folder, 'data'),
    UPLOADS_DIR: join(folder, 'uploads')
  }, ['npm', 'start'])
  t.same(writtenAt(), before, 'files that are up to date are not built again')
  t.notMatch(service.output(), '"level":40', 'no warning')
  t.equal(statSync(join(PROJECT, 'uploads')).mode & 0o004, 0, 'nor one about the folder of the clone')
  t.match(service.output(), `Landfall listens on ${service.url}`)
  t.match(service.output(), `Database  ${folder}/data`)
  t.match(service.output(), /Embedded mode/)
  t.match(service.output(), `Console   ${service.url}/console\n`)
  const printed = / {2}(curl [\s\S]*?\n)\n/.exec(service.output())?.[1] ?? 'false'
  const [response = ''] = await paste([printed.replace('you@', 'first@')], folder, service.url)
  t.match(JSON.parse(response), { user: { email: 'first@example.com' } }, 'the printed command')
  await walkThrough(t, service)
})

t.test('the walk-through works on PostgreSQL and Redis', async (t) => {
  const [, byHand = ''] = blocksOf('Production')
  t.match(
    byHand,
    /^npm ci --include=dev && npm run build\nnpm prune --omit=dev\nexport DATABASE_URL=\S+ REDIS_URL=\S+\nexport JWT_SECRET=\S+ rand -hex 32\)\nnode dist\/cli\/landfall\.js serve\n$/
  )
  const { BASE_URL: _baseUrl, ...settings } = await testSettings(t)
  const env = {
    ...settings,
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: await claimRedis(t),
    LOG_LEVEL: 'info',
    MIGRATE_ON_START: 'false'
  }
  t.match(await runService(t, env, ['npm', 'run', 'landfall', '--', 'migrate']), { code: 0 })
  const service = await startService(t, env, ['node', 'dist/cli/landfall.js', 'serve'])
  t.notMatch(service.output(), /Embedded mode/)
  await walkThrough(t, service)
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('the tables name only settings that exist', async (t) => {
  const settings = Object.keys(loadConfig({}))
  t.equal(blocksOf('Production')[0], 'JWT_SECRET=$(openssl rand -hex 32) docker compose up --build\n')
  t.equal(blocksOf('Testing')[0], 'npm test\n')
  for (const [, row = ''] of readme.matchAll(/^\| (`[A-Z_`, ]+`) \|/gm)) {
    for (const [, name = ''] of row.matchAll(/`([A-Z_]+)`/g)) t.ok(settings.includes(name), name)
  }
})
