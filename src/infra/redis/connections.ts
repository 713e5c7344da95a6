import { Cluster, Redis, ReplyError, type RedisOptions } from 'ioredis'
import { redisNodes } from '../../config.ts'
import { withTimeLimit } from '../system/time-limit.ts'

/** How long a new connection may take to become ready, and a subscription to be confirmed. */
export const GREETING_TIMEOUT_MS = 500
/** How long a node of a cluster may take to say which node has which keys; then another one is asked. */
const LAYOUT_TIMEOUT_MS = 300
/** How often that is asked. A node that a command finds to have moved is known at once. */
const LAYOUT_INTERVAL_MS = 5000

const retryStrategy = (attempt: number): number => Math.min(attempt * 50, 500)

const CONNECTION = {
  connectTimeout: 1000,
  disconnectTimeout: 50, // ioredis' default, 2 s, would delay the next connection
  maxRetriesPerRequest: 0
}
const OPTIONS = { ...CONNECTION, lazyConnect: true, enableOfflineQueue: false, retryStrategy }

/** Lua scripts by the name of the command that runs each. */
export type RedisScripts = Readonly<Record<string, { readonly numberOfKeys?: number, readonly lua: string }>>

/** What runs commands: one server, or a cluster, where the keys of a command must share a slot. */
export type RedisCommands = Redis | Cluster

/**
 * Creates the connection for commands. All scripts are defined here: ioredis ends the process if a script is
 * defined while a pipeline is being filled.
 *
 * @param url REDIS_URL, which names a server, or several nodes of a cluster
 */
export function createCommandConnection (url: string, scripts: RedisScripts): RedisCommands {
  return isCluster(url) ? createCluster(url, scripts) : createServerConnection(url, scripts)
}

/** Whether REDIS_URL names several nodes. */
export const isCluster = (url: string): boolean => redisNodes(url).length > 1

export function createServerConnection (url: string, scripts: RedisScripts): Redis {
  return abandonUnlessReady(new Redis(url, {
    ...OPTIONS,
    enableAutoPipelining: true,
    scripts: { ...scripts }
  }))
}

/** Whether only a part of the keys of a command has moved to another node so far. */
export const isHalfMoved = (error: unknown): boolean =>
  error instanceof ReplyError && (error as Error).message.startsWith('TRYAGAIN')

/** Fails at once if the keys of a command are half moved. ioredis would ask random nodes for a while. */
class FollowingCluster extends Cluster {
  override handleError (...[error, ttl, handlers]: Parameters<Cluster['handleError']>): void {
    if (isHalfMoved(error)) handlers.defaults()
    else super.handleError(error, ttl, handlers)
  }
}

/**
 * Creates the connections for the commands of a cluster. Commands follow slots that move. They are not sent
 * in pipelines, because ioredis doesn't repeat a pipeline of which only a part was moved.
 */
export function createCluster (url: string, scripts: RedisScripts): Cluster {
  const nodes = redisNodes(url).map((node) => new URL(node))
  return new FollowingCluster(
    nodes.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port || 6379)
    })),
    {
      lazyConnect: true,
      clusterRetryStrategy: retryStrategy,
      slotsRefreshTimeout: LAYOUT_TIMEOUT_MS,
      slotsRefreshInterval: LAYOUT_INTERVAL_MS,
      // The circuit breaker decides when to try again, and a write may have happened.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      maxRedirections: 5,
      // Names are resolved for each connection: certificates contain names, and addresses change.
      dnsLookup: (name, callback) => callback(null, name),
      redisOptions: { ...CONNECTION, ...credentials(nodes[0] as URL) },
      scripts: { ...scripts }
    }
  )
}

/** Creates the connection for publish/subscribe messages of a server. */
export function createSubscriberConnection (url: string): Redis {
  return abandonUnlessReady(new Redis(url, { ...OPTIONS, autoResubscribe: false }))
}

/** Creates the connection for publish/subscribe messages of a node of a cluster. */
export function createNodeSubscriberConnection (url: string, host: string, port: number): Redis {
  const [node = url] = redisNodes(url)
  return abandonUnlessReady(new Redis({
    ...OPTIONS,
    ...credentials(new URL(node)),
    host,
    port,
    autoResubscribe: false
  }))
}

function credentials (
  { protocol, username, password }: URL
): Pick<RedisOptions, 'tls' | 'username' | 'password'> {
  return {
    ...protocol === 'rediss:' && { tls: {} },
    ...username !== '' && { username: decodeURIComponent(username) },
    ...password !== '' && { password: decodeURIComponent(password) }
  }
}

/** Reconnects if a connection opens but does not become ready in time. ioredis would wait without a limit. */
function abandonUnlessReady (connection: Redis): Redis {
  let onSettled = (): void => {}
  connection.on('connect', () => {
    const settled = new Promise<void>((resolve) => {
      onSettled = resolve
    })
    withTimeLimit(settled, GREETING_TIMEOUT_MS).catch(() => connection.disconnect(true))
  })
  for (const event of ['ready', 'close'] as const) connection.on(event, () => onSettled())
  return connection
}
