import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, type Expected, type Request } from './answers.ts'
import { JSON_TYPE, read, type Contender, type ServerPlan, type Target } from './contender.ts'
import { manyPublicId, manyText, sha256, type Page } from './documents.ts'
import { MANY_PAGES, type Seed } from './seed.ts'
import type { ServerCommand } from './servers.ts'
import type { Stores } from './stores.ts'
import { seededRandom, zipfDraws } from './statistics.ts'

// The service itself in every case that it promises something for. One server for each way to configure it.

const DIST = join(import.meta.dirname, '../dist')
/** So many that no read of the one address is refused. */
const UNLIMITED = '1000000000'
const MANY_ADDRESSES = 100_000
const TURN_ADDRESSES = 10_000
const DRAWS = 200_000
/** Reads in a minute that the service lets an address have when nothing is set. */
const DEFAULT_LIMIT = 30

/** Headers that every public read has, whatever its status. */
const LIMITED = {
  'x-request-id': /./,
  'access-control-allow-origin': /^\*$/,
  ratelimit: /^"public";r=\d+;t=\d+$/,
  'ratelimit-policy': /^"public";q=\d+;w=60$/
}

/** Begins with the two whose speed is promised most plainly: the hot address at 2 KB and at 30 KB. */
export function ourContenders (): [Contender, Contender, ...Contender[]] {
  const small = (seed: Seed): Page => seed.small
  const large = (seed: Seed): Page => seed.large
  const hotTargets = (bare: string): Target[] => [{ metric: 'rate', of: bare, atLeast: 0.95 }, { metric: 'p99', of: bare, atMost: 1.3 }]
  return [
    { ...plain('ours-2k', 'ours: one hot address 2 KB', 'bare-2k', small), targets: hotTargets('bare-2k') },
    { ...plain('ours-30k', 'ours: one hot address 30 KB', 'bare-30k', large), targets: hotTargets('bare-30k') },
    ...watched(small),
    {
      ...plain('addresses-10k', 'ours: 10k addresses in turn 2 KB', 'bare-2k', small),
      server: ourServer('ours-addresses', { RATE_LIMIT_PUBLIC: '100000', TRUST_PROXY: '127.0.0.1' }),
      load: ({ seed }) => ({ requests: addresses(10, TURN_ADDRESSES, seed.small) }),
      targets: [{ metric: 'rate', of: 'bare-2k', atLeast: 0.8 }]
    },
    {
      ...plain('addresses-zipf', 'ours: 100k addresses Zipf 2 KB', 'bare-2k', small),
      server: ourServer('ours-addresses-zipf', { RATE_LIMIT_PUBLIC: '100000', TRUST_PROXY: '127.0.0.1' }),
      load: ({ seed }) => ({ requests: addresses(11, MANY_ADDRESSES, seed.small), order: zipfDraws(MANY_ADDRESSES, DRAWS, seededRandom(7)) })
    },
    notModified('304-2k', 'ours: 304 2 KB', 'bare-2k', small),
    notModified('304-30k', 'ours: 304 30 KB', 'bare-30k', large),
    overLimit(),
    plain('plain-br', 'ours: plain as large as 30 KB in br', 'bare-30k', (seed) => seed.asLargeAsBr),
    compressed('br', 'plain-br'),
    plain('plain-gzip', 'ours: plain as large as 30 KB in gzip', 'bare-30k', (seed) => seed.asLargeAsGzip),
    compressed('gzip', 'plain-gzip'),
    {
      ...manyPages('cold', 'ours: cold documents 2 KB', { CACHE_MAX_BYTES: '1000' }),
      load: () => ({ requests: everyPage() }),
      // Redis would still have what an earlier turn read.
      prepare: async ({ stores }, server) => await stores.flush(server.env.REDIS_URL as string)
    },
    {
      ...manyPages('documents-zipf', 'ours: 100k documents Zipf in 16 MiB of cache 2 KB', { CACHE_MAX_BYTES: String(16 * 2 ** 20) }),
      load: () => ({ requests: everyPage(), order: zipfDraws(MANY_PAGES, DRAWS, seededRandom(8)) })
    },
    {
      ...plain('workers-2', 'ours: two workers 2 KB', 'bare-2k', small),
      server: { ...ourServer('ours-workers', { RATE_LIMIT_PUBLIC: UNLIMITED, WEB_CONCURRENCY: '2' }), onBothCores: true },
      targets: [{ metric: 'rate', of: 'ours-2k', atLeast: 1.8, perCore: true }],
      skip: knowsSetting('WEB_CONCURRENCY') ? undefined : 'the service has no setting WEB_CONCURRENCY yet'
    }
  ]
}

/** The service as most of its contenders want it; the data is made through it, too. */
const HOT = { RATE_LIMIT_PUBLIC: UNLIMITED }
export const hotServer = ourServer('ours', HOT)

/** Starts with the stores alone, so that it can make the data. */
export const hotCommand = (stores: Stores): ServerCommand => ourCommand(stores, hotServer.id, HOT)

function ourServer (id: string, settings: Record<string, string>): ServerPlan {
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
      ...settings
    }
  }
}

function plain (id: string, name: string, bare: Contender['bare'], page: (seed: Seed) => Page): Contender {
  return {
    id,
    name,
    bare,
    server: hotServer,
    load: ({ seed }) => ({ requests: [read(page(seed))] }),
    expected: ({ seed }) => whole(page(seed).text)
  }
}

/** The hot address with all that may be known of it, against the same when nobody wants to know anything. */
function watched (page: (seed: Seed) => Page): Contender[] {
  const opsPort = 20_000 + Math.floor(Math.random() * 10_000) // below the ports of outgoing connections
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
        const timer = setInterval(() => { scrape().catch(() => {}) }, 1000)
        setTimeout(() => clearInterval(timer), seconds * 1000).unref()
      }
    },
    // To a collector that is away: spans are made and dropped.
    variant('traced', 'no metrics, traces', { OPS_PORT: '', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' })
  ]
}

function notModified (id: string, name: string, bare: Contender['bare'], page: (seed: Seed) => Page): Contender {
  return {
    ...plain(id, name, bare, page),
    load: ({ seed }) => ({ requests: [read(page(seed), { 'If-None-Match': `"${sha256(page(seed).text)}"` })] }),
    expected: ({ seed }) => ({ status: 304, headers: { ...LIMITED, etag: exactly(`"${sha256(page(seed).text)}"`) } }),
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
      headers: { ...LIMITED, 'content-type': JSON_TYPE, 'content-encoding': exactly(encoding), etag: exactly(`"${sha256(seed.large.text)}-${encoding}"`) }
    }),
    targets: [{ metric: 'rate', of: reference, atLeast: 0.9 }]
  }
}

function overLimit (): Contender {
  return {
    ...plain('429', 'ours: 429 2 KB', 'bare-2k', (seed) => seed.small),
    server: ourServer('ours-limited', {}),
    expected: () => ({ status: 429, headers: { ...LIMITED, 'retry-after': /^[1-9]\d?$/ } }),
    // A window ends in the middle of a turn that is longer than it.
    otherAnswers: DEFAULT_LIMIT,
    async prepare ({ seed }, server, seconds) {
      // A service that never refuses is found out by the check that follows.
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

function manyPages (id: string, name: string, settings: Record<string, string>): Contender {
  return {
    ...plain(id, name, 'bare-2k', (seed) => seed.small),
    server: ourServer(`ours-${id}`, { RATE_LIMIT_PUBLIC: UNLIMITED, ...settings }),
    expected: ({ seed }, index) => whole(manyText(seed.manyBase, index)),
    needsManyPages: true
  }
}

const everyPage = (): Request[] => Array.from({ length: MANY_PAGES }, (_, index) => read({ publicId: manyPublicId(index) }))

const addresses = (first: number, count: number, page: Page): Request[] => Array.from({ length: count }, (_, index) =>
  read(page, { 'X-Forwarded-For': `${first}.${index >> 16}.${(index >> 8) & 255}.${index & 255}` }))

const whole = (text: string): Expected => ({
  status: 200,
  text,
  headers: { ...LIMITED, 'content-type': JSON_TYPE, etag: exactly(`"${sha256(text)}"`), 'last-modified': /GMT$/, vary: /Accept-Encoding/i }
})

const exactly = (text: string): RegExp => new RegExp(`^${text.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')}$`)

/** Whether the service that was built knows a setting. */
function knowsSetting (name: string): boolean {
  const file = join(DIST, 'config.js')
  return existsSync(file) && readFileSync(file, 'utf8').includes(name)
}
