import { setTimeout as sleep } from 'node:timers/promises'
import { read, type Contender, type Context, type Target } from './contender.ts'
import { ADDRESS } from './generators/load.ts'
import type { Load, Request } from './generators/types.ts'
import { exactly, ourServer, plain, small } from './ours.ts'
import { randomPort, type Server } from './servers.ts'

// Heavy public traffic: very many client addresses, each with few reads a minute, at the default limits.

const ADDRESSES = 1_000_000
/** In 60 s most of the addresses make a read in the same window, so memory is that of a crowd. */
const WARM_UP_TURNS = 30
/** For the others, so that V8 has compiled what a crowd needs. */
const SHORT_WARM_UP_TURNS = 10
/** The share of one process. Until it has that, a new process may have a smaller one. */
const FULL_SHARE = 20
/** Before a turn in the first minute, so that V8 has compiled the most. */
const RESTART_WARM_UP_MS = 3000
const RESTART_WARM_UP_CONNECTIONS = 16
const SHARE_TIMEOUT_MS = 120_000
const POLL_MS = 500
const SHARE = /^landfall_limit_share\{[^}]*tier="public"[^}]*\} (\S+)$/m

const TARGETS: Target[] = [
  { metric: 'rate', of: 'bare-2k', atLeast: 0.85 },
  { metric: 'redis', atMost: 1 }
]
/** Only for the crowd with the long warm-up: in a few seconds no server meets a million addresses. */
const MEMORY: Target = { metric: 'rss', of: 'ours-2k', atMost: 100 }

/** For a process that was started before the turn. */
const FIRST_MINUTE_TARGETS: Target[] = [
  { metric: 'rate', of: 'bare-2k', atLeast: 0.8 },
  { metric: 'redis', atMost: 2 }
]

/** The crowd, and variants of it. The first one is the case that matters. */
export function crowdContenders (): [Contender, ...Contender[]] {
  return [
    {
      ...crowd('crowd', 'a million addresses', 'ours-crowd'),
      warmUpTurns: WARM_UP_TURNS,
      targets: [...TARGETS, MEMORY]
    },
    {
      ...crowd('crowd-first', 'a million addresses, first minute of a process', 'ours-crowd-first'),
      prepare: async (context, server) => await restart(context, server),
      targets: FIRST_MINUTE_TARGETS
    },
    {
      ...crowd('crowd-new', 'a million addresses, first minute of a new process', 'ours-crowd-new'),
      // Without what the process before has left, it is like an additional process.
      prepare: async (context, server) =>
        await restart(
          context,
          server,
          async () => await context.stores.flush(server.env.REDIS_URL as string)
        ),
      targets: FIRST_MINUTE_TARGETS
    },
    {
      ...crowd('crowd-name', 'a million addresses, allowed name', 'ours-crowd-name', {
        ALLOWED_HOSTS: 'www.example.com'
      }),
      warmUpTurns: SHORT_WARM_UP_TURNS,
      load: ({ seed }) => addresses(read(seed.small, { ...FORWARDED, Origin: 'https://www.example.com' })),
      targets: TARGETS
    },
    {
      ...crowd('crowd-range', 'a million addresses, allowed range', 'ours-crowd-range', {
        ALLOWED_HOSTS: '10.0.0.0/8'
      }),
      warmUpTurns: SHORT_WARM_UP_TURNS,
      targets: TARGETS
    }
  ]
}

/**
 * The crowd at half of its rate, with 1 % of writes, and bare Fastify at the same rate without writes.
 *
 * @param bare the bare Fastify whose server is used
 */
export function openLoopContenders (bare: Contender): Contender[] {
  return [
    {
      ...bare,
      id: 'bare-open',
      name: 'open loop: bare Fastify 2 KB',
      bare: 'bare-open',
      halfRateOf: 'crowd'
    },
    {
      ...crowd('open', 'open loop, a million addresses, 1 % writes', 'ours-crowd'),
      bare: 'bare-open',
      load: ({ seed }) => ({ ...addresses(read(seed.small, FORWARDED)), writes: seed.writes }),
      halfRateOf: 'crowd',
      targets: [{ metric: 'p99', of: 'bare-open', atMost: 1.5 }, { metric: 'max', atMost: 50 }]
    }
  ]
}

const FORWARDED = { 'X-Forwarded-For': ADDRESS }
const addresses = (request: Request): Load => ({ requests: [request], addresses: ADDRESSES })

function crowd (id: string, name: string, server: string, settings: Record<string, string> = {}): Contender {
  const policy = settings.ALLOWED_HOSTS === undefined ? '"public";q=30;w=60' : '"allowed-host";q=1000;w=60'
  const hot = plain(id, `ours: ${name} 2 KB`, 'bare-2k', small)
  return {
    ...hot,
    server: ourServer(server, { TRUST_PROXY: '127.0.0.1', OPS_PORT: String(randomPort()), ...settings }),
    load: ({ seed }) => addresses(read(seed.small, FORWARDED)),
    expected (context, index) {
      const { headers, ...response } = hot.expected(context, index)
      return {
        ...response,
        headers: { ...headers, ratelimit: /^"[a-z-]+";r=\d+;t=\d+$/, 'ratelimit-policy': exactly(policy) }
      }
    },
    prepare: waitForShare
  }
}

/** Restarts the service when it has a share that it can leave, and reads from it for a few seconds. */
async function restart (context: Context, server: Server, between?: () => Promise<void>): Promise<void> {
  if (between === undefined) await waitForShare(context, server)
  await server.restart(between)
  const { seed } = context
  const url = `http://127.0.0.1:${server.port}/landing_pages/${seed.small.publicId}`
  const until = Date.now() + RESTART_WARM_UP_MS
  let reads = 0
  await Promise.all(Array.from({ length: RESTART_WARM_UP_CONNECTIONS }, async () => {
    while (Date.now() < until) {
      const number = reads++
      const address = `198.18.${number >> 8 & 255}.${number & 255}`
      await (await fetch(url, { headers: { 'X-Forwarded-For': address } })).arrayBuffer()
    }
  }))
}

/**
 * Waits until the service has its share of the limit, which begins a window after its start.
 *
 * @throws {Error} after two minutes
 */
export async function waitForShare (
  _context: unknown,
  { name, env }: Pick<Server, 'name' | 'env'>
): Promise<void> {
  const deadline = Date.now() + SHARE_TIMEOUT_MS
  for (;;) {
    const metrics = await (await fetch(`http://127.0.0.1:${env.OPS_PORT}/metrics`)).text()
    const share = SHARE.exec(metrics)?.[1]
    if (share === undefined || Number(share) >= FULL_SHARE) return
    if (Date.now() > deadline) throw new Error(`${name} has no share of the limit`)
    await sleep(POLL_MS)
  }
}
