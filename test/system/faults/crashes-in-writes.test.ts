import { createHash } from 'node:crypto'
import t from 'tap'
import { call } from '../../helpers/client.ts'
import { startReplicas, stopAtEveryStep } from './fault-replicas.ts'
import { statuses } from '../../helpers/readers.ts'

// SIGKILL at every step of a write: the history has no gap, and each version its document.

const { survivor, victim, owner, load } = await startReplicas(t)
const STEPS = /^query|^redis/
const DOCUMENTS = ['{"v":1}', '{"v": 2e400}', '{"v":3 }']

interface Revision {
  readonly version: number
  readonly etag: string
  readonly byte_size: number
}

const urlOf = (id: string, path: string, { url } = survivor) => `${url}/manage/landing_pages/${id}${path}`
const tagOf = (text: string) => `"${createHash('sha256').update(text).digest('base64url')}"`

/** Creates a page with three versions. */
async function createHistory (): Promise<{ id: string, publicId: string }> {
  const { id, public_id: publicId } = await owner.createPage(survivor.url, DOCUMENTS[0] as string)
  for (const text of DOCUMENTS.slice(1)) await owner.call('PUT', urlOf(id, '/document'), { text })
  return { id, publicId }
}

interface Write {
  /** The document that it writes. */
  readonly result: string
  readonly status: number
  /** Returns the status of the response. */
  readonly run: (id: string) => Promise<number>
}

const WRITES: Record<string, Write> = {
  'a write': {
    result: '{"v":4}',
    status: 204,
    run: async (id) => (await owner.call('PUT', urlOf(id, '/document', victim), { text: '{"v":4}' })).status
  },
  'a restore': {
    result: DOCUMENTS[0] as string,
    status: 200,
    run: async (id) => (await owner.call('POST', urlOf(id, '/revisions/1/restore', victim))).status
  }
}

for (const [name, { result, status, run }] of Object.entries(WRITES)) {
  t.test(`SIGKILL at any step of ${name} leaves each version its document`, async (t) => {
    const pages: { id: string, publicId: string }[] = []
    const action = async () => {
      const page = await createHistory()
      pages.push(page)
      t.equal(await run(page.id), status)
    }
    const stops = await stopAtEveryStep(victim, STEPS, action)
    t.ok(stops.length >= 2, 'the process stopped at every step')
    const underWay = await victim.stopAt({ steps: STEPS, nth: 2, when: 'during' }, action)
    t.ok(underWay, 'once more while the statement was under way')
    await victim.kill()
    await victim.restart()

    const lengths = new Set<number>()
    for (const { id, publicId } of pages) {
      const list = (await owner.call('GET', urlOf(id, '/revisions'))).json<Revision[]>()
      lengths.add(list.length)
      t.same(list.map(({ version }) => version), [4, 3, 2, 1].slice(-list.length), 'no gap')
      for (const { version, etag, byte_size: size } of list) {
        const { text } = await owner.call('GET', urlOf(id, `/revisions/${version}`))
        t.equal(text, [...DOCUMENTS, result][version - 1])
        t.equal(etag, tagOf(text))
        t.equal(size, Buffer.byteLength(text))
      }
      const current = [...DOCUMENTS, result][list.length - 1]
      t.equal((await owner.call('GET', urlOf(id, '/document'))).text, current)
      const read = await call('GET', `${victim.url}/landing_pages/${publicId}`)
      // Without its publication, a copy in Redis is served until it expires after a minute.
      const newest = current === result ? [DOCUMENTS[2], result] : [DOCUMENTS[2]]
      t.ok(newest.includes(read.text), `readers get a version of the history: ${read.text}`)
      t.equal(await run(id), status, 'the write can be repeated')
    }
    t.same([...lengths].sort(), [3, 4], 'some writes were lost, others were committed')
  })
}

t.test('meanwhile readers noticed nothing', async (t) => {
  t.same(Object.keys(statuses(await load())), ['200'])
})
