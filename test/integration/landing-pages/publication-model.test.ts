import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { pruneRevisions } from '../../../src/modules/landing-pages/revision-repository.ts'
import { buildTestApp, createPage, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { valueText } from '../../helpers/json-text.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// Pages on two replicas, in random sequences of requests, compared with a model.

const settings = {
  ...await testSettings(t),
  REDIS_URL: await claimRedis(t),
  RATE_LIMIT_PUBLIC: '1000000'
}
const replicas = [await buildTestApp(t, settings), await buildTestApp(t, settings)] as const
const owner = await signUp(replicas[0])

const send = async (
  app: FastifyInstance,
  method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE',
  url: string,
  body?: string,
  type = 'json'
) =>
  await sendAs(app, owner, method, url, body, {
    ...body !== undefined && { 'content-type': `application/${type}` }
  })
const read = async (app: FastifyInstance, publicId: string) => {
  const { statusCode, body } = await app.inject(`/landing_pages/${publicId}`)
  return statusCode === 200 ? body : statusCode
}

type Operation =
  | { readonly type: 'write' | 'patch' | 'draft' | 'patchDraft', readonly value: string }
  | { readonly type: 'discard' | 'publish' | 'unpublish' | 'delete' | 'undelete' }
  | { readonly type: 'restore', readonly back: number }
  | { readonly type: 'schedule', readonly publishes: boolean, readonly unpublishes: boolean }
  | { readonly type: 'prune', readonly count: number, readonly bytes: number }
  // The times of the schedule come.
  | { readonly type: 'elapse' }

interface Version {
  readonly version: number
  readonly text: string
  readonly published: boolean
  readonly scheduled: boolean
  readonly restoredFrom: number | null
}

/** What the service has to do. A document is an array of one value. */
class Model {
  document = '[0]'
  draft: { text: string, base: number, isOutdated: boolean } | undefined
  published = true
  isDeleted = false
  schedule = { publishes: false, unpublishes: false }
  /** Those that are kept, the newest first. */
  versions: Version[] = [{ version: 1, text: '[0]', published: true, scheduled: false, restoredFrom: null }]

  get version (): number {
    return this.versions[0]?.version as number
  }

  get public (): string | number {
    return this.published && !this.isDeleted ? this.document : 404
  }

  /** Returns the status of the response. */
  apply (operation: Operation): number {
    if (operation.type === 'elapse') return this.#elapse()
    if (operation.type === 'prune') return this.#prune(operation.count, operation.bytes)
    if (this.isDeleted !== (operation.type === 'undelete')) return 404
    switch (operation.type) {
      case 'write':
      case 'patch':
        this.#replace(`[${operation.value}]`)
        return 204
      case 'restore': {
        const restored = this.versions.find(({ version }) => version === this.version - operation.back)
        if (restored === undefined) return 404
        this.#replace(restored.text, restored.version)
        return 200
      }
      case 'draft':
      case 'patchDraft': {
        if (this.schedule.publishes) return 409
        const isNew = this.draft === undefined
        const { base, isOutdated } = this.draft ?? { base: this.version, isOutdated: false }
        this.draft = { text: `[${operation.value}]`, base, isOutdated }
        return isNew ? 201 : 204
      }
      case 'discard':
        if (this.draft === undefined) return 404
        if (this.schedule.publishes) return 409
        this.draft = undefined
        return 204
      case 'publish':
        if (this.draft?.isOutdated === true) return 409
        this.#publish()
        return 200
      case 'unpublish':
        this.#unpublish()
        return 200
      case 'schedule': {
        const { publishes, unpublishes } = operation
        if (publishes && this.published && this.draft === undefined) return 422
        this.schedule = { publishes, unpublishes }
        return 200
      }
      case 'delete':
      case 'undelete':
        this.isDeleted = operation.type === 'delete'
        this.schedule = { publishes: false, unpublishes: false }
        this.#addVersion()
        return operation.type === 'delete' ? 204 : 200
    }
  }

  #elapse (): number {
    const { publishes, unpublishes } = this.schedule
    if (publishes) this.#publish(true)
    if (unpublishes) this.#unpublish(true)
    return 200
  }

  #publish (scheduled = false): void {
    if (!this.published || (this.draft !== undefined && this.draft.text !== this.document)) {
      this.published = true
      this.document = this.draft?.text ?? this.document
      this.#addVersion(scheduled)
    }
    this.draft = undefined
    this.schedule.publishes = false
  }

  #unpublish (scheduled = false): void {
    if (this.published) {
      this.published = false
      this.#addVersion(scheduled)
    }
    this.schedule.unpublishes = false
  }

  #prune (maxCount: number, maxBytes: number): number {
    let bytes = 0
    this.versions = this.versions.filter(({ text }, index) => {
      if (index > 0) bytes += Buffer.byteLength(text)
      return index === 0 || (index <= maxCount && bytes <= maxBytes)
    })
    // A version that was removed may have had other bytes.
    const { draft } = this
    const isKept = (version: number) => this.versions.some((one) => one.version === version)
    if (draft !== undefined && !isKept(draft.base)) draft.isOutdated = true
    return 200
  }

  #replace (text: string, restoredFrom: number | null = null): void {
    if (text === this.document) return
    this.document = text
    if (this.draft !== undefined) this.draft.isOutdated = true
    this.#addVersion(false, restoredFrom)
  }

  #addVersion (scheduled = false, restoredFrom: number | null = null): void {
    const published = this.published && !this.isDeleted
    this.versions.unshift({
      version: this.version + 1,
      text: this.document,
      published,
      scheduled,
      restoredFrom
    })
  }
}

async function request (app: FastifyInstance, id: string, current: number, operation: Operation) {
  const url = `/manage/landing_pages/${id}`
  switch (operation.type) {
    case 'write':
      return await send(app, 'PUT', `${url}/document`, `[${operation.value}]`)
    case 'patch':
    case 'patchDraft': {
      const part = operation.type === 'patch' ? 'document' : 'draft'
      const body = `[{"op":"replace","path":"/0","value":${operation.value}}]`
      return await send(app, 'PATCH', `${url}/${part}`, body, 'json-patch+json')
    }
    case 'restore': {
      const version = Math.max(0, current - operation.back) || 999
      return await send(app, 'POST', `${url}/revisions/${version}/restore`)
    }
    case 'draft':
      return await send(app, 'PUT', `${url}/draft`, `[${operation.value}]`)
    case 'discard':
      return await send(app, 'DELETE', `${url}/draft`)
    case 'publish':
    case 'unpublish':
      return await send(app, 'POST', `${url}/${operation.type}`)
    case 'delete':
      return await send(app, 'DELETE', url)
    case 'undelete':
      return await send(app, 'POST', `/manage/deleted_pages/${id}/restore`)
    case 'schedule': {
      const inDays = (days: number) => new Date(Date.now() + days * 86_400_000)
      const body = JSON.stringify({
        publish_at: operation.publishes ? inDays(1) : null,
        unpublish_at: operation.unpublishes ? inDays(2) : null
      })
      return await send(app, 'PUT', `${url}/schedule`, body)
    }
    case 'prune': {
      const limits = { maxCount: operation.count, maxBytes: operation.bytes, replacedSince: null }
      await pruneRevisions(app.database, limits)
      return { statusCode: 200 }
    }
    case 'elapse':
      return await elapse(id)
  }
}

/** Lets the times of a schedule pass, and waits until one of the replicas has made the changes. */
async function elapse (id: string) {
  const { database } = replicas[0]
  await database.$executeRaw`
    UPDATE landing_page_schedules SET publish_at = CASE WHEN publish_at IS NOT NULL THEN now() - interval '2 ms' END,
      unpublish_at = CASE WHEN unpublish_at IS NOT NULL THEN now() - interval '1 ms' END
    WHERE page_id = ${id}::uuid`
  await until(async () =>
    await database.landingPageSchedule.count({
      where: { pageId: id, OR: [{ publishAt: { not: null } }, { unpublishAt: { not: null } }] }
    }) === 0
  )
  return { statusCode: 200 }
}

const value = fc.oneof(fc.constantFrom('0', '1', '2', '3'), valueText)
const operations = fc.array(
  fc.tuple(
    fc.nat(1),
    fc.oneof(
      fc.record({ type: fc.constantFrom('write', 'patch', 'draft', 'patchDraft'), value }),
      fc.record({
        type: fc
          .constantFrom(...'discard publish publish unpublish unpublish delete undelete undelete'.split(' '))
      }),
      fc.record({ type: fc.constant('restore'), back: fc.nat(3) }),
      fc.record({ type: fc.constant('schedule'), publishes: fc.boolean(), unpublishes: fc.boolean() }),
      fc.record({ type: fc.constant('prune'), count: fc.nat(6), bytes: fc.nat(200) }),
      fc.record({ type: fc.constant('elapse') })
    ) as fc.Arbitrary<Operation>
  ),
  { minLength: 1, maxLength: 12 }
)

t.test('any history of a page comes back byte for byte', async (t) => {
  await fc.assert(
    fc.asyncProperty(operations, async (sequence) => {
      const model = new Model()
      const { id, public_id: publicId } = await createPage(replicas[0], owner, '[0]')
      for (const [replica, operation] of sequence) {
        const app = replicas[replica] as FastifyInstance
        const { version } = model
        const { statusCode } = await request(app, id, version, operation)
        t.equal(statusCode, model.apply(operation), operation.type)
        // What another replica has written may arrive later, and so may a scheduled change.
        if (operation.type === 'elapse' || model.version === version) {
          await until(async () => await read(app, publicId) === model.public)
        } else t.ok(await read(app, publicId) === model.public, `the own write: ${operation.type}`)
      }
      for (const app of replicas) {
        await until(async () => await read(app, publicId) === model.public)
      }
      const last: Operation = { type: 'undelete' }
      if (model.isDeleted) t.equal((await request(replicas[1], id, 0, last)).statusCode, model.apply(last))
      const url = `/manage/landing_pages/${id}`
      const { draft, publish_at: publishAt, unpublish_at: unpublishAt } =
        (await send(replicas[0], 'GET', `${url}/publication`)).json()
      t.equal(draft?.outdated, model.draft?.isOutdated)
      t.same({ publishes: publishAt !== null, unpublishes: unpublishAt !== null }, model.schedule)
      const history = (await send(replicas[1], 'GET', `${url}/revisions?limit=100`)).json()
      t.match(
        history,
        model.versions.map(({ text, restoredFrom, ...version }) => ({
          ...version,
          etag: `"${createHash('sha256').update(text).digest('base64url')}"`,
          byte_size: Buffer.byteLength(text),
          author: { type: 'user', name: owner.user.email },
          restored_from: restoredFrom
        }))
      )
      t.equal(history.length, model.versions.length)
      const times = history.map(({ created_at: at }: { created_at: string }) => at)
      t.same(times, times.toSorted().reverse())
      for (const { version, text } of model.versions) {
        t.ok((await send(replicas[0], 'GET', `${url}/revisions/${version}`)).body === text)
      }
      if (!t.passing()) throw new Error('differs from the model')
    }),
    { numRuns: 100 }
  )
})

t.test('while a page is published and unpublished in turn, versions never go backwards', async (t) => {
  const [one, two] = replicas
  const { id, public_id: publicId } = await createPage(one, owner, '{"v":0}')
  const url = `/manage/landing_pages/${id}`
  const state = { writing: true }
  const reader = async (app: FastifyInstance) => {
    let last = 0
    while (state.writing) {
      await turn() // lets messages arrive; a read from memory is synchronous
      const body = await read(app, publicId)
      if (body === 404) continue
      const { v } = JSON.parse(body as string)
      if (v < last) t.fail(`version ${v} after ${last}`)
      last = v
    }
  }
  const readers = [one, one, two, two].map(reader)
  for (let v = 1; v <= 60; v++) {
    const [writer, other] = v % 3 === 0 ? [two, one] : [one, two]
    await send(writer, 'PUT', `${url}/document`, `{"v":${v}}`)
    await send(other, 'POST', `${url}/unpublish`)
    t.equal(await read(other, publicId), 404, 'the own write')
    await send(writer, 'PUT', `${url}/draft`, `{"v":${v}.5}`)
    await send(other, 'POST', `${url}/publish`)
    t.equal(await read(other, publicId), `{"v":${v}.5}`, 'the own write')
  }
  for (const app of replicas) await until(async () => await read(app, publicId) === '{"v":60.5}')
  state.writing = false
  await Promise.all(readers)
})
