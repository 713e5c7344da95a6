import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import autocannon from 'autocannon'
import t, { type Test } from 'tap'
import { JWT_SECRET, type CreatedPage } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { memoryDuring } from './memory.ts'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { SERVE, startService, temporaryFolder, type Service } from '../../helpers/service.ts'

// The memory use of the service doesn't grow under long load.

const SECONDS = Number(process.env.SOAK_SECONDS) || 600
const CONNECTIONS = 32
const PAGES = 300
const UPLOAD_BYTES = 8 * 2 ** 20
const UPLOADERS = 3

const say = (line: string): void => console.error(line)

async function start (t: Test): Promise<{ service: Service, owner: Owner, uploads: string }> {
  const uploads = temporaryFolder(t)
  const service = await startService(
    t,
    {
      DATABASE_URL: await createDatabase(t),
      REDIS_URL: await claimRedis(t),
      JWT_SECRET,
      UPLOADS_DIR: uploads,
      RATE_LIMIT_PUBLIC: '2000000000',
      CACHE_MAX_BYTES: String(4 * 2 ** 20), // less than the pages need, so that some are evicted
      ACCESS_TOKEN_TTL: '86400',
      LOG_LEVEL: 'error'
    },
    SERVE,
    true
  )
  return { service, owner: await Owner.signUp(service.url), uploads }
}

t.test(`${SECONDS} s of public reads at full speed, with writes between them: memory stays flat`, async (t) => {
  const { service, owner } = await start(t)
  const document = (): string =>
    JSON.stringify({
      text: `${randomBytes(2000).toString('hex')}${'landing page '.repeat(Math.floor(1500 * Math.random()))}`
    })
  const pages: CreatedPage[] = []
  for (let n = 0; n < PAGES; n++) pages.push(await owner.createPage(service.url, document()))
  say(`reading ${PAGES} pages, and some that don't exist, over ${CONNECTIONS} connections for ${SECONDS} s`)
  const state = { isOver: false }
  let writes = 0
  const memory = await memoryDuring(service.child.pid as number, SECONDS, say, async () => {
    const write = async () => {
      while (!state.isOver) {
        const page = pages[writes % PAGES] as CreatedPage
        const { status } = await owner.update(service.url, page.id, document())
        if (status !== 200) throw new Error(`a write was answered with ${status}`)
        writes++
        await sleep(20)
      }
    }
    const writing = write().catch((error: Error) =>
      t.fail(`a write failed: ${String(error.cause ?? error)}; the service printed: ${service.output()}`)
    )
    const encodings = ['identity', 'br', 'gzip']
    let unknown = 0
    const result = await Promise.resolve(autocannon({
      url: service.url,
      connections: CONNECTIONS,
      duration: SECONDS,
      requests: [
        ...pages.map(({ public_id: publicId }, n) => ({
          path: `/landing_pages/${publicId}`,
          headers: { 'accept-encoding': encodings[n % 3] as string }
        })),
        {
          setupRequest: (request: autocannon.Request) => ({
            ...request,
            path: `/landing_pages/${String(++unknown).padStart(22, '0')}`
          })
        }
      ]
    })).finally(() => {
      state.isOver = true
    })
    await writing
    say(`${result.requests.total} reads, ${writes} writes`)
    t.equal(result.errors + result.timeouts, 0, 'no read failed')
    t.equal(result['5xx'], 0)
    t.ok(result['2xx'] > 0 && result['4xx'] > 0)
  })
  t.ok(memory.isFlat, `${memory.before} MB, then ${memory.after} MB`)
})

t.test(`${SECONDS} s of uploads that are deleted again: memory stays flat and no file stays`, async (t) => {
  const { service, owner, uploads } = await start(t)
  const bytes = randomBytes(UPLOAD_BYTES)
  say(`uploading ${UPLOAD_BYTES / 2 ** 20} MB again and again, ${UPLOADERS} at once, for ${SECONDS} s`)
  let count = 0
  const memory = await memoryDuring(service.child.pid as number, SECONDS, say, async () => {
    const end = performance.now() + SECONDS * 1000
    await Promise.all(Array.from({ length: UPLOADERS }, async () => {
      while (performance.now() < end) {
        const uploaded = await owner.upload(service.url, bytes)
        if (uploaded.status !== 201) {
          throw new Error(`an upload was answered with ${uploaded.status}: ${uploaded.text}`)
        }
        const { status } = await owner.call('DELETE', `${service.url}/assets/${JSON.parse(uploaded.text).id}`)
        if (status !== 204) throw new Error(`a deletion was answered with ${status}`)
        count++
      }
    }))
  })
  say(`${count} uploads`)
  t.ok(memory.isFlat, `${memory.before} MB, then ${memory.after} MB`)
  t.same(
    (await readdir(uploads, { recursive: true })).filter((name) => !['.tmp', '.database'].includes(name)),
    []
  )
})
