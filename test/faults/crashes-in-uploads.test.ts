import t from 'tap'
import { call } from '../helpers/client.ts'
import { statuses } from '../helpers/readers.ts'
import { noise } from '../assets/helpers.ts'
import { until } from '../helpers/until.ts'
import { startReplicas, stopAtEveryStep } from './replicas.ts'

// SIGKILL while files come and go: every row has its file with its size and hash, and after the next start every file its row.

const HOUR_MS = 60 * 60 * 1000

/** The steps that change something on the disk or in PostgreSQL. */
const CHANGES = /^(open [\w-]{22}$|write|sync|rename|unlink|query (INSERT|UPDATE|DELETE|WITH|BEGIN|COMMIT))/

/** In words that are the same each time. */
const kind = (step: string): string => step.replace(/^(open|rename|unlink) .*/, '$1').replace(/^(query \w+) .*/, '$1')

const { survivor, victim, owner, load, look } = await startReplicas(t)

const upload = async (url: string, bytes: Buffer) => await owner.upload(url, bytes)

/** Starts the victim and waits for its sweep; its clock is so far ahead that it sweeps what was left a moment ago. */
async function restartAndSweep (): Promise<void> {
  await victim.restart()
  await until(async () => {
    const { orphans, temporary } = await look()
    return orphans.length + temporary.length === 0
  }, 'the start has swept what has no row')
}

victim.advance(HOUR_MS + 60_000)

t.test('SIGKILL at every step of an upload', { timeout: 60_000 }, async (t) => {
  const statuses: number[] = []
  const stops = await stopAtEveryStep(victim, CHANGES, async () => { statuses.push((await upload(victim.url, noise(5000))).status) })
  await victim.kill()
  t.same(stops.map(({ when, step }) => `${when} ${kind(step)}`), [
    'before open', 'before write', 'before sync', 'before rename', 'before sync', 'before query INSERT', 'after query INSERT'
  ], 'they stood everywhere')
  t.same(statuses, [201], 'and one went through')

  const left = await look()
  t.same(left.broken, [], 'no row without its file')
  t.equal(left.rows.length, 2, 'rows: of the one that was answered, and of the one that was about to be')
  t.equal(left.orphans.length, 2, 'files without a row: before the folder is on the disk, and before the row')
  t.equal(left.temporary.length, 3, 'temporary files: before the bytes, before they are on the disk, before the name')
  await restartAndSweep()
  const { rows, broken } = await look()
  t.same({ rows, broken }, { rows: left.rows, broken: [] }, 'every file its row, every row its file, and no row is gone')
  t.equal((await upload(victim.url, noise(5000))).status, 201, 'and it goes on')
})

t.test('SIGKILL while the disk or PostgreSQL is at work on an upload', { timeout: 60_000 }, async (t) => {
  const seen: Record<string, unknown> = {}
  for (const [steps, nth] of [[/^write/, 5], [/^sync/, 1], [/^rename/, 1], [/^query INSERT/, 1]] as const) {
    const before = await look()
    t.ok(await victim.stopAt({ steps, nth, when: 'during' }, async () => await upload(victim.url, noise(1_000_000))), steps.source)
    await victim.kill()
    const left = await look()
    const added = left.rows.length - before.rows.length
    seen[steps.source] = { rows: added, orphans: left.orphans.length, temporary: left.temporary.length }
    t.same(left.broken, [], `${steps.source}: no row without its file`)
    t.equal(added + left.orphans.length + left.temporary.length, 1, `${steps.source}: one of three, never two`)
    await restartAndSweep()
    const { rows, broken } = await look()
    t.same({ rows, broken }, { rows: left.rows, broken: [] }, `${steps.source}: every file its row, every row its file`)
  }
  t.comment(JSON.stringify(seen))
})

t.test('SIGKILL at every step of the delete of an asset', { timeout: 60_000 }, async (t) => {
  const before = await look()
  const assets: { id: string, url: string }[] = []
  const remove = async () => {
    const asset = JSON.parse((await upload(survivor.url, noise(5000))).text) as { id: string, url: string }
    assets.push(asset)
    t.equal((await owner.call('DELETE', `${victim.url}/assets/${asset.id}`)).status, 204, 'one goes through')
  }
  const stops = await stopAtEveryStep(victim, CHANGES, remove)
  t.same(stops.map(({ when, step }) => `${when} ${kind(step)}`), ['before query DELETE', 'before unlink', 'after unlink'], 'they stood everywhere')
  t.ok(await victim.stopAt({ steps: CHANGES, nth: 1, when: 'during' }, remove))
  await victim.kill()

  const left = await look()
  t.same(left.broken, [], 'no row without its file')
  t.ok(left.orphans.length >= 1, `the file whose row had gone is left (${left.orphans.length})`)
  await restartAndSweep()
  t.same((await look()).rows.filter((key) => !left.rows.includes(key)), [])
  const whole = await Promise.all(assets.map(async ({ id, url }) => {
    const record = await owner.call('GET', `${victim.url}/assets/${id}`)
    const served = await call('GET', victim.url + new URL(url).pathname)
    return `${record.status} ${served.status}`
  }))
  t.same(whole.slice(0, 4), ['200 200', '404 404', '404 404', '404 404'], 'before the row goes all of it is there, afterwards none of it')
  t.match(whole[4], /^(200 200|404 404)$/)
  t.equal((await look()).rows.length - before.rows.length, whole.filter((answers) => answers === '200 200').length)
})

t.test('all the while the replica that lives on has answered every read', async (t) => {
  t.same(Object.keys(statuses(await load())), ['200'])
})
