import { execFileSync } from 'node:child_process'
import { chmod, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { call, Owner, type Response, type StoredAsset } from '../../helpers/client.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { startService } from '../../helpers/service.ts'
import { noise } from '../../helpers/assets.ts'

// A full disk and a read-only folder, without mounting anything, for the service as a process under reads.

const settings = { ...await testSettings(t), LOG_LEVEL: 'error', RATE_LIMIT_PUBLIC: '1000000' } as Record<
  string,
  string
>
const folder = settings.UPLOADS_DIR as string

// Root ignores permissions because of its capabilities, so the service runs without them.
const UNPRIVILEGED = process.getuid?.() === 0
  ? ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--inh-caps=-all'] : []
const service = await startService(
  t,
  settings,
  [...UNPRIVILEGED, process.execPath, 'dist/cli/landfall.js', 'serve'] as unknown as [string, ...string[]]
)
const owner = await Owner.signUp(service.url)
const page = await owner.createPage(service.url, '{"v":0}')
const pageUrl = `${service.url}/landing_pages/${page.public_id}`
const readers = new Readers(t, { urls: [service.url], publicIds: [page.public_id], intervalMs: 20 })

const upload = async (size: number) => await owner.upload(service.url, noise(size))
const create = async (size: number) => await owner.store(service.url, noise(size))
const remove = async ({ id }: { id: string }) => await owner.call('DELETE', `${service.url}/assets/${id}`)
const served = async ({ path }: StoredAsset) => (await call('GET', service.url + path)).status
const stored = async () =>
  [
    ...(await readdir(folder)).filter((name) => name !== '.database'),
    ...(await readdir(join(folder, '.tmp'))).map((name) => `.tmp/${name}`)
  ].sort()
let version = 0

/** Asserts that requests that write no file still work. */
async function othersServe (t: Test, kept: StoredAsset): Promise<void> {
  const document = `{"v":${++version}}`
  t.equal((await owner.update(service.url, page.id, document)).status, 200, 'a page can be written')
  t.equal((await call('GET', pageUrl)).text, document, 'and read')
  t.equal(await served(kept), 200, 'a file can be read')
  t.equal((await owner.call('GET', `${service.url}/assets`)).status, 200, 'assets can be listed')
  for (const path of ['/health/live', '/health/ready']) {
    t.equal((await call('GET', service.url + path)).status, 200, path)
  }
}

const refused = (t: Test, response: Response, status: 503 | 507): void => {
  t.equal(response.status, status)
  t.same(JSON.parse(response.text), {
    errors: [
      status === 507 ? 'There is no storage space left for uploads'
        : 'The service is temporarily unavailable, try again shortly'
    ]
  })
  if (status === 503) t.ok(Number(response.headers.get('retry-after')) >= 1)
}

t.test('uploads to a full disk get 507 and leave nothing', async (t) => {
  const kept = await create(150_000)
  const before = await stored()
  // With a limit on the size of files, writes beyond it fail as on a disk that fills up during an upload.
  const allowFiles = (size: string) =>
    execFileSync('prlimit', [`--pid=${service.child.pid}`, `--fsize=${size}:`])
  const reads = await readers.during(async () => {
    allowFiles('100000')
    for (let round = 0; round < 3; round++) {
      refused(t, await upload(150_000), 507)
      t.same(await stored(), before, 'nothing is left')
      await othersServe(t, kept)
    }
    refused(t, await upload(5_000_000), 507)
    t.same(await stored(), before, 'nothing is left of a file that arrives in many parts')
    const small = await create(50_000)
    t.equal(await served(small), 200, 'a file that fits is stored')
    t.equal((await remove(small)).status, 204, 'files can be deleted')
    allowFiles('unlimited')
    const large = await create(150_000)
    t.equal(await served(large), 200, 'large uploads succeed again')
    t.equal((await remove(large)).status, 204)
  })
  t.same(await stored(), before)
  t.same(Object.keys(statuses(reads)), ['200'], `public reads: ${JSON.stringify(statuses(reads))}`)
})

for (
  const [name, folders, mayDelete] of [
    ['all of it', [folder, join(folder, '.tmp')], false],
    ['published files', [folder], false],
    ['temporary files', [join(folder, '.tmp')], true]
  ] as const
) {
  t.test(`uploads to a read-only folder (${name}) get 503 and leave nothing`, async (t) => {
    const kept = await create(5000)
    const doomed = await create(5000)
    const reads = await readers.during(async () => {
      for (const path of folders) await chmod(path, 0o555)
      const before = await stored()
      refused(t, await upload(150_000), 503)
      t.same(await stored(), before, 'nothing is left')
      await othersServe(t, kept)
      const response = await remove(doomed)
      if (mayDelete) {
        t.equal(response.status, 204)
      } else {
        refused(t, response, 503)
        t.equal(
          (await owner.call('GET', `${service.url}/assets/${doomed.id}`)).status,
          200,
          'a file that could not be deleted keeps its row'
        )
        t.equal(await served(doomed), 200)
      }
      for (const path of folders) await chmod(path, 0o755)
      t.equal((await upload(5000)).status, 201, 'uploads succeed again')
      if (!mayDelete) t.equal((await remove(doomed)).status, 204)
      t.equal(await served(doomed), 404)
    })
    t.same(Object.keys(statuses(reads)), ['200'], `public reads: ${JSON.stringify(statuses(reads))}`)
  })
}

t.test('the process has survived all these faults, and its log has the reasons', async (t) => {
  t.equal(service.child.exitCode, null)
  for (const code of ['EFBIG', 'EACCES']) t.match(service.output(), new RegExp(`"${code}"`), code)
})
