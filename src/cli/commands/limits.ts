import { isIP } from 'node:net'
import type { Config } from '../../config.ts'
import { countedAddress } from '../../http/client-address.ts'
import { addressKey } from '../../modules/accounts/index.ts'
import { counterKey, MAX_WINDOW_MS, RATE_LIMIT_SCRIPTS, windowKey } from '../../modules/rate-limit/index.ts'
import type { RedisCommands } from '../../infra/redis/connections.ts'
import { auditCommand, loadCommandConfig, withRedis } from '../operator.ts'
import { formatCount, formatTable, print } from '../output.ts'

// The commands for the limits of a client address.

interface Limit {
  readonly name: string
  readonly max: number
  /** The name in Redis: of a counter, or of a window of leased reads. */
  readonly key: string
  readonly isLeased: boolean
}

export async function show (givenAddress: string, { json = false }: { json?: boolean }): Promise<void> {
  const { address, limits, redisUrl } = prepare(givenAddress)
  const uses = await withRedis(
    redisUrl,
    {},
    async (redis) =>
      await Promise.all(limits.map(async (limit) => ({ ...limit, ...await readUse(redis, limit) })))
  )
  if (json) {
    const counts = uses.map(({ name, used, max, endsIn }) => ({ limit: name, used, max, ends_in: endsIn }))
    print(`${JSON.stringify({ address, limits: counts })}\n`)
    return
  }
  print(`What Redis counts for ${address}. Reads that a process has leased ahead count; reads from its ` +
    `share don't:\n\n`)
  print(formatTable([
    ['LIMIT', 'USED', 'OF', 'ENDS IN'],
    ...uses.map((
      { name, used, max, endsIn }
    ) => [name, String(used), String(max), endsIn > 0 ? `${endsIn} s` : '-'])
  ]))
}

export async function clear (givenAddress: string): Promise<void> {
  const { address, limits, redisUrl } = prepare(givenAddress)
  const deleted = await withRedis(
    redisUrl,
    RATE_LIMIT_SCRIPTS,
    // One command for each key, because a cluster refuses keys of several nodes in one.
    async (redis) =>
      await Promise.all(limits.map(async ({ key, isLeased }) =>
        isLeased ? await redis.landfallClearLeases(key, MAX_WINDOW_MS)
          : await redis.landfallClear(key, MAX_WINDOW_MS)
      ))
  )
  const cleared = deleted.filter((count) => count > 0).length
  auditCommand('limits clear', { cleared: address })
  print(`Cleared ${formatCount(cleared, 'count')} of ${address}\n`)
}

function prepare (address: string): { address: string, limits: Limit[], redisUrl: string } {
  const config = loadCommandConfig()
  if (isIP(address) === 0) throw new Error(`${address} is not an IPv4 or IPv6 address`)
  if (config.REDIS_URL === undefined) {
    throw new Error('This command needs REDIS_URL: without Redis, each process counts in its memory')
  }
  const counted = countedAddress(address)
  return {
    address: isIP(counted) === 6 ? `${counted}/64` : counted,
    limits: limitsOf(config, counted),
    redisUrl: config.REDIS_URL
  }
}

function limitsOf (config: Config, address: string): Limit[] {
  const reads = (name: string, max: number, tier: 'public' | 'allowed-host') => ({
    name,
    max,
    key: windowKey(`${tier} ${address}`),
    isLeased: true
  })
  const attempts = (name: string, max: number, limit: Parameters<typeof addressKey>[0]) => ({
    name,
    max,
    key: counterKey(addressKey(limit, address)),
    isLeased: false
  })
  return [
    reads('public reads', config.RATE_LIMIT_PUBLIC, 'public'),
    reads('public reads by allowed hosts', config.RATE_LIMIT_ALLOWED_HOSTS, 'allowed-host'),
    attempts('failed sign-ins', config.SIGN_IN_FAILURES_PER_ADDRESS, 'sign-in:address'),
    attempts('sign-ups', config.SIGN_UPS_PER_ADDRESS, 'sign_up'),
    attempts('refreshes', config.REFRESHES_PER_ADDRESS, 'refresh'),
    attempts('password resets', config.PASSWORD_RESETS_PER_ADDRESS, 'password_reset')
  ]
}

async function readUse (
  redis: RedisCommands,
  { key, isLeased }: Limit
): Promise<{ used: number, endsIn: number }> {
  const [used, ttlMs] = await Promise.all([redis.hget(key, isLeased ? 'g' : 'used'), redis.pttl(key)])
  const leftMs = isLeased ? ttlMs - MAX_WINDOW_MS : ttlMs // Redis keeps a window for as long again
  return leftMs > 0 ? { used: Number(used ?? 0), endsIn: Math.ceil(leftMs / 1000) } : { used: 0, endsIn: 0 }
}
