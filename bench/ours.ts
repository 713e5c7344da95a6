import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type Expected } from './responses.ts'
import type { Request } from './generators/types.ts'
import { JSON_TYPE, read, type Contender, type ServerPlan, type Target } from './contender.ts'
import { manyPublicId, manyText, sha256, type Page } from './documents.ts'
import { MANY_PAGES, type Seed } from './seed.ts'
import { randomPort, type ServerCommand } from './servers.ts'
import type { Stores } from './stores.ts'
import { seededRandom, zipfDraws } from './statistics.ts'

// The service itself in all cases with a target. Cases with the same settings share a server.

const DIST = join(import.meta.dirname, '../dist')
/** A limit that one address doesn't reach. */
const UNLIMITED = '1000000000'
const MANY_ADDRESSES = 100_000
const TURN_ADDRESSES = 10_000
const DRAWS = 200_000
/** Default of RATE_LIMIT_PUBLIC. */
const DEFAULT_LIMIT = 30

/** Headers of all public reads, whatever their status. */
const LIMITED = {
  'x-request-id': /./,
  'access-control-allow-origin': /^\*$/,
  ratelimit: /^"public";r=\d+;t=\d+$/,
  'ratelimit-policy': /^"public";q=\d+;w=60$/
}

export const small = (seed: Seed): Page => seed.small
const large = (seed: Seed): Page => seed.large

/** All cases. The first two are the hot address at 2 KB and at 30 KB. */
export function ourContenders (): [Contender, Contender, ...Contender[]] {
  return [
    hot('ours-2k', 'ours: one hot address 2 KB', 'bare-2k', small),
    hot('ours-30k', 'ours: one hot address 30 KB', 'bare-30k', large),
    ...watched(small),
    ...manyAddresses(),
    notModified('304-2k', 'ours: 304 2 KB', small),
    notModified('304-30k', 'ours: 304 30 KB', large),
    overLimit(),
    plain('plain-br', 'ours: plain as large as 30 KB in br', 'bare-30k', (seed) => seed.asLargeAsBr),
    compressed('br', 'plain-br'),
    plain('plain-gzip', 'ours: plain as large as 30 KB in gzip', 'bare-30k', (seed) => seed.asLargeAsGzip),
    compressed('gzip', 'plain-gzip'),
    ...manyDocuments(),
    twoWorkers()
  ]
}

/** The server of most cases. The data is created through it, too; its token is for the whole run. */
const HOT = { RATE_LIMIT_PUBLIC: UNLIMITED, ACCESS_TOKEN_TTL: '86400' }
export const hotServer = ourServer('ours', HOT)

/** Needs the stores only, so that the data can be created through it. */
export const hotCommand = (stores: Stores): ServerCommand => ourCommand(stores, hotServer.id, HOT)

export function ourServer (id: string, settings: Record<string, string>): ServerPlan {
  return { id, isOurs: true, command: ({ stores }) => ourCommand(stores, id, settings) }
}

function ourCommand (stores: Stores, id: string, settings: Record<string, string>): ServerCommand {
  return {
    name: id,
    command: [process.execPath, join(DIST, 'cli/landfall.js'), 'serve'],
    env: {
      DATABASE_URL: stores.postgresUrl,
      REDIS_URL: stores.claimRedis(),
      JWT_SECRET: stores.jwtSecret,
      UPLOADS_DIR: join(stores.guardian.folder, `uploads-${id}`),
      OPS_PORT: '0',
      LOG_LEVEL: 'info',
      // Creating the pages must not fail because the machine is busy.
      MAX_EVENT_LOOP_DELAY_MS: '0',
      ...settings
    }
  }
}

export function plain (
  id: string,
  name: string,
  bare: Contender['bare'],
  page: (seed: Seed) => Page
): Contender {
  return {
    id,
    name,
    bare,
    server: hotServer,
    load: ({ seed }) => ({ requests: [read(page(seed))] }),
    expected: ({ seed }) => whole(page(seed).text)
  }
}

function hot (id: string, name: string, bare: Contender['bare'], page: (seed: Seed) => Page): Contender {
  const targets: Target[] = [{ metric: 'rate', of: bare, atLeast: 0.95 }, {
    metric: 'p99',
    of: bare,
    atMost: 1.3
  }]
  return { ...plain(id, name, bare, page), targets }
}

/** The hot address with metrics or traces, compared with the hot address without them. */
function watched (page: (seed: Seed) => Page): Contender[] {
  const opsPort = randomPort()
  const variant = (id: string, name: string, settings: Record<string, string>): Contender => ({
    ...plain(id, `ours: hot, ${name} 2 KB`, 'bare-2k', page),
    server: ourServer(`ours-${id}`, { ...HOT, ...settings }),
    ...id !== 'unwatched' && { targets: [{ metric: 'rate', of: 'unwatched', atLeast: 0.98 }] }
  })
  return [
    variant('unwatched', 'no metrics', { OPS_PORT: '' }),
    {
      ...variant('scraped', 'metrics scraped each second', { OPS_PORT: String(opsPort) }),
      async prepare (_context, _server, seconds) {
        const scrape = async (): Promise<void> => {
          const response = await fetch(`http://127.0.0.1:${opsPort}/metrics`)
          if (!(await response.text()).includes('landfall_public_reads_total')) throw new Error('no metrics')
        }
        await scrape()
        const timer = setInterval(() => {
          scrape().catch(() => {})
        }, 1000)
        setTimeout(() => clearInterval(timer), seconds * 1000).unref()
      }
    },
    // The collector is unreachable, so spans are created and dropped.
    variant('traced', 'no metrics, traces', {
      OPS_PORT: '',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9'
    })
  ]
}

function notModified (id: string, name: string, page: (seed: Seed) => Page): Contender {
  return {
    ...plain(id, name, 'bare-304', page),
    load: ({ seed }) => ({
      requests: [read(page(seed), { 'If-None-Match': `"${sha256(page(seed).text)}"` })]
    }),
    expected: ({ seed }) => ({
      status: 304,
      headers: { ...LIMITED, etag: exactly(`"${sha256(page(seed).text)}"`) }
    }),
    targets: [{ metric: 'rate', of: 'ours-2k', atLeast: 1 }]
  }
}

function compressed (encoding: 'br' | 'gzip', reference: string): Contender {
  return {
    ...plain(encoding, `ours: ${encoding} 30 KB`, 'bare-30k', (seed) => seed.large),
    load: ({ seed }) => ({ requests: [read(seed.large, { 'Accept-Encoding': encoding })] }),
    expected: ({ seed }) => ({
      status: 200,
      text: seed.large.text,
      headers: {
        ...LIMITED,
        'content-type': JSON_TYPE,
        'content-encoding': exactly(encoding),
        etag: exactly(`"${sha256(seed.large.text)}-${encoding}"`)
      }
    }),
    targets: [{ metric: 'rate', of: reference, atLeast: 0.9 }]
  }
}

function overLimit (): Contender {
  return {
    ...plain('429', 'ours: 429 2 KB', 'bare-429', small),
    server: ourServer('ours-limited', {}),
    expected: () => ({ status: 429, headers: { ...LIMITED, 'retry-after': /^[1-9]\d?$/ } }),
    // A new window may begin during the turn.
    otherResponses: DEFAULT_LIMIT,
    async prepare ({ seed }, server, seconds) {
      // The check of the response that follows fails if the service never refuses.
      for (let attempt = 0; attempt < 10 * DEFAULT_LIMIT; attempt++) {
        const { status, headers } = await ask(server.port, read(seed.small))
        const secondsLeft = Number(headers['retry-after'])
        if (status !== 429) continue
        if (secondsLeft > seconds + 1 || seconds > 50) return
        await sleep(1000 * secondsLeft)
      }
    },
    targets: [{ metric: 'rate', of: '304-2k', atLeast: 1 }]
  }
}

/** Reads from many client addresses, set by X-Forwarded-For. */
function manyAddresses (): Contender[] {
  const settings = { RATE_LIMIT_PUBLIC: '100000', TRUST_PROXY: '127.0.0.1' }
  return [
    {
      ...plain('addresses-10k', 'ours: 10k addresses in turn 2 KB', 'bare-2k', small),
      server: ourServer('ours-addresses', settings),
      load: ({ seed }) => ({ requests: addresses(10, TURN_ADDRESSES, seed.small) }),
      targets: [{ metric: 'rate', of: 'bare-2k', atLeast: 0.8 }]
    },
    {
      ...plain('addresses-zipf', 'ours: 100k addresses Zipf 2 KB', 'bare-2k', small),
      server: ourServer('ours-addresses-zipf', settings),
      load: ({ seed }) => ({
        requests: addresses(11, MANY_ADDRESSES, seed.small),
        order: zipfDraws(MANY_ADDRESSES, DRAWS, seededRandom(7))
      })
    }
  ]
}

/** Reads of more documents than the process keeps in memory. */
function manyDocuments (): Contender[] {
  return [
    {
      ...manyPages('cold', 'ours: cold documents 2 KB', { CACHE_MAX_BYTES: '1000' }),
      load: () => ({ requests: everyPage() }),
      // Otherwise Redis would still have the documents of an earlier turn.
      prepare: async ({ stores }, server) => await stores.flush(server.env.REDIS_URL as string),
      targets: [{ metric: 'rate', of: 'bare-2k', atLeast: 0.25 }]
    },
    {
      ...manyPages('documents-zipf', 'ours: 100k documents Zipf in 16 MiB of cache 2 KB', {
        CACHE_MAX_BYTES: String(16 * 2 ** 20)
      }),
      load: () => ({ requests: everyPage(), order: zipfDraws(MANY_PAGES, DRAWS, seededRandom(8)) }),
      targets: [{ metric: 'rate', of: 'bare-2k', atLeast: 0.4 }]
    }
  ]
}

function twoWorkers (): Contender {
  return {
    ...plain('workers-2', 'ours: two workers 2 KB', 'bare-2k', small),
    server: {
      ...ourServer('ours-workers', { RATE_LIMIT_PUBLIC: UNLIMITED, WEB_CONCURRENCY: '2' }),
      onBothCores: true
    },
    targets: [{ metric: 'rate', of: 'ours-2k', atLeast: 1.8, perCore: true }],
    skip: knowsSetting('WEB_CONCURRENCY') ? undefined : 'the service has no setting WEB_CONCURRENCY yet'
  }
}

function manyPages (id: string, name: string, settings: Record<string, string>): Contender {
  return {
    ...plain(id, name, 'bare-2k', small),
    server: ourServer(`ours-${id}`, { RATE_LIMIT_PUBLIC: UNLIMITED, ...settings }),
    expected: ({ seed }, index) => whole(manyText(seed.manyBase, index)),
    needsManyPages: true
  }
}

const everyPage = (): Request[] =>
  Array.from({ length: MANY_PAGES }, (_, index) => read({ publicId: manyPublicId(index) }))

const addresses = (first: number, count: number, page: Page): Request[] =>
  Array.from(
    { length: count },
    (_, index) =>
      read(page, { 'X-Forwarded-For': `${first}.${index >> 16}.${(index >> 8) & 255}.${index & 255}` })
  )

const whole = (text: string): Expected => ({
  status: 200,
  text,
  headers: {
    ...LIMITED,
    'content-type': JSON_TYPE,
    etag: exactly(`"${sha256(text)}"`),
    vary: /Accept-Encoding/i
  }
})

export const exactly = (text: string): RegExp =>
  new RegExp(`^${text.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')}$`)

/** Whether the built service has a setting. */
function knowsSetting (name: string): boolean {
  const file = join(DIST, 'config.js')
  return existsSync(file) && readFileSync(file, 'utf8').includes(name)
}
