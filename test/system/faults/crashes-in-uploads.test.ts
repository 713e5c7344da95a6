import t from 'tap'
import { call, type StoredAsset } from '../../helpers/client.ts'
import { statuses } from '../../helpers/readers.ts'
import { noise } from '../../helpers/assets.ts'
import { until } from '../../helpers/until.ts'
import { startReplicas, stopAtEveryStep, type Storage } from './fault-replicas.ts'

// SIGKILL during uploads and deletions: every row has its file with the right size and hash, and after the
// next start every file has its row.

const HOUR_MS = 60 * 60 * 1000

/** Matches the steps that change the disk or PostgreSQL. */
const CHANGES = /^(open [\w-]{22}$|write|sync|rename|unlink|query (INSERT|UPDATE|DELETE|WITH|BEGIN|COMMIT))/

/** Returns a step without its random parts. */
const kind = (step: string): string =>
  step.replace(/^(open|rename|unlink) .*/, '$1').replace(/^(query \w+) .*/, '$1')

const { survivor, victim, owner, load, look } = await startReplicas(t)

/** Restarts the victim with its clock ahead, and waits until it has swept what was left just now. */
async function restartAndSweep (): Promise<Pick<Storage, 'rows' | 'broken'>> {
  await victim.restart()
  await until(async () => {
    const { orphans, temporary } = await look()
    return orphans.length + temporary.length === 0
  }, 'the start has removed the files without a row')
  const { rows, broken } = await look()
  return { rows, broken }
}

victim.advance(HOUR_MS + 60_000)

t.test('SIGKILL in an upload leaves no row without its file', async (t) => {
  const statuses: number[] = []
  const stops = await stopAtEveryStep(victim, CHANGES, async () => {
    statuses.push((await owner.upload(victim.url, noise(5000))).status)
  })
  await victim.kill()
  t.same(stops.map(({ when, step }) => `${when} ${kind(step)}`), [
    'before open',
    'before write',
    'before sync',
    'before rename',
    'before sync',
    'before query INSERT',
    'after query INSERT'
  ], 'the process stopped at every step')
  t.same(statuses, [201], 'the last upload succeeded')

  const left = await look()
  t.same(left.broken, [], 'every row has its file')
  t.equal(left.rows.length, 2, 'of the answered upload, and of the one that was about to be answered')
  t.equal(left.orphans.length, 2, 'stopped before the sync of the folder, and before the INSERT')
  t.equal(left.temporary.length, 3, 'stopped before the write, the sync and the rename')
  t.same(await restartAndSweep(), { rows: left.rows, broken: [] }, 'no row and no file is lost')
  t.equal((await owner.upload(victim.url, noise(5000))).status, 201, 'uploads succeed again')
})

t.test('SIGKILL while disk or PostgreSQL works leaves no row without its file', async (t) => {
  for (const [steps, nth] of [[/^write/, 5], [/^sync/, 1], [/^rename/, 1], [/^query INSERT/, 1]] as const) {
    const before = await look()
    t.ok(
      await victim.stopAt(
        { steps, nth, when: 'during' },
        async () => await owner.upload(victim.url, noise(1_000_000))
      ),
      steps.source
    )
    await victim.kill()
    const left = await look()
    const added = left.rows.length - before.rows.length
    t.same(left.broken, [], `${steps.source}: every row has its file`)
    t.equal(
      added + left.orphans.length + left.temporary.length,
      1,
      `${steps.source}: a row, a file or a temporary file, never two of them`
    )
    t.same(await restartAndSweep(), { rows: left.rows, broken: [] }, 'no row and no file is lost')
  }
})

t.test(
  'SIGKILL in a deletion leaves row and file, or neither',
  async (t) => {
    const before = await look()
    const assets: StoredAsset[] = []
    const remove = async () => {
      const asset = await owner.store(survivor.url, noise(5000))
      assets.push(asset)
      const { status } = await owner.call('DELETE', `${victim.url}/assets/${asset.id}`)
      t.equal(status, 204, 'the last deletion succeeds')
    }
    const stops = await stopAtEveryStep(victim, CHANGES, remove)
    t.same(stops.map(({ when, step }) => `${when} ${kind(step)}`), [
      'before query DELETE',
      'before unlink',
      'after unlink'
    ], 'the process stopped at every step')
    t.ok(await victim.stopAt({ steps: CHANGES, nth: 1, when: 'during' }, remove))
    await victim.kill()

    const left = await look()
    t.same(left.broken, [], 'every row has its file')
    t.ok(left.orphans.length >= 1, `the file of the deleted row is left (${left.orphans.length})`)
    t.same((await restartAndSweep()).rows.filter((key) => !left.rows.includes(key)), [])
    const whole = await Promise.all(assets.map(async ({ id, path }) => {
      const record = await owner.call('GET', `${victim.url}/assets/${id}`)
      const served = await call('GET', victim.url + path)
      return `${record.status} ${served.status}`
    }))
    t.same(
      whole.slice(0, 4),
      ['200 200', '404 404', '404 404', '404 404'],
      'the asset is complete before the DELETE and gone after it'
    )
    t.match(whole[4], /^(200 200|404 404)$/)
    t.equal(
      (await look()).rows.length - before.rows.length,
      whole.filter((responses) => responses === '200 200').length
    )
  }
)

t.test('the other replica has answered every read', async (t) => {
  t.same(Object.keys(statuses(await load())), ['200'])
})
