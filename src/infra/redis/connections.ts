import { Redis } from 'ioredis'
import { withTimeLimit } from './time-limit.ts'

/** How long a new connection may take to become ready, and a subscription to be confirmed. */
export const GREETING_TIMEOUT_MS = 500

const OPTIONS = {
  lazyConnect: true,
  connectTimeout: 1000,
  disconnectTimeout: 50, // ioredis' default, 2 s, would delay the next connection
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 500)
}

/** Lua scripts by the name of the command that runs each. */
export type RedisScripts = Readonly<Record<string, { readonly numberOfKeys?: number, readonly lua: string }>>

/**
 * Creates the connection for commands. All scripts are defined here: ioredis ends the process if a script is
 * defined while a pipeline is being filled.
 */
export function createCommandConnection (url: string, scripts: RedisScripts): Redis {
  return abandonUnlessReady(new Redis(url, {
    ...OPTIONS,
    enableAutoPipelining: true,
    autoPipeliningIgnoredCommands: ['evalsha'],
    scripts: { ...scripts }
  }))
}

/** Creates the connection for publish/subscribe messages. */
export function createSubscriberConnection (url: string): Redis {
  return abandonUnlessReady(new Redis(url, { ...OPTIONS, autoResubscribe: false }))
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
