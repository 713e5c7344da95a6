import type { Result } from 'ioredis'

// The Lua scripts for documents in Redis. Both take any number of keys.

declare module 'ioredis' {
  interface RedisCommander<Context> {
    /** Values: the channel, the lifetime in ms, and for each key version, hash, time, bytes, message. */
    landfallStore(
      numberOfKeys: number,
      ...keysAndValues: readonly (string | number | Buffer)[]
    ): Result<number[], Context>
    /** Values: the largest document, in bytes. */
    landfallReadBuffer(
      numberOfKeys: number,
      ...keysAndMaxBytes: readonly (string | number)[]
    ): Result<StoredDocument[], Context>
  }
}

/**
 * null if nothing is stored, 0 for a document that is too large. Else version and remaining lifetime, and if
 * the document is stored, too: its hash, its time, its bytes.
 */
export type StoredDocument = null | 0 | readonly [Buffer, number] | readonly [
  Buffer,
  number,
  Buffer,
  Buffer,
  Buffer
]

// Stores versions unless newer ones are known, and publishes them in the same script, so that a replica that
// receives a message never finds an older version here. Returns the newest versions known.
const STORE = `
local channel, lifetime_ms = ARGV[1], ARGV[2]
local known = {}
for place, key in ipairs(KEYS) do
  local at = 5 * place - 2
  local version, hash, updated_at, bytes = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] -- hash: '' to store only the version
  local message = ARGV[at + 4] -- '' to publish nothing
  local stored = redis.call('HMGET', key, 'v', 'h')
  local newest, stored_hash = tonumber(stored[1] or '0'), stored[2]
  -- After a failover, PostgreSQL may assign a version number again. Then the document that was just written wins.
  local completes = hash ~= '' and (not stored_hash or (message ~= '' and stored_hash ~= hash))
  if tonumber(version) > newest or (tonumber(version) == newest and completes) then
    -- No DEL before HSET: in a cluster, a script can't create a key again whose slot is moving to another node.
    if hash == '' then
      redis.call('HSET', key, 'v', version)
      if stored_hash then redis.call('HDEL', key, 'h', 't', 'd') end
    else
      redis.call('HSET', key, 'v', version, 'h', hash, 't', updated_at, 'd', bytes)
    end
    redis.call('PEXPIRE', key, lifetime_ms)
  end
  if message ~= '' then redis.call('PUBLISH', channel, message) end
  known[place] = math.max(newest, tonumber(version))
end
return known
`

const READ = `
local max_bytes = tonumber(ARGV[1])
local copies = {}
for place, key in ipairs(KEYS) do
  local stored = redis.call('HMGET', key, 'v', 'h', 't')
  local version, hash, updated_at = stored[1], stored[2], stored[3]
  if not version then
    copies[place] = false
  elseif not hash then
    copies[place] = { version, redis.call('PTTL', key) }
  elseif redis.call('HSTRLEN', key, 'd') > max_bytes then
    copies[place] = 0
  else
    copies[place] = { version, redis.call('PTTL', key), hash, updated_at, redis.call('HGET', key, 'd') }
  end
end
return copies
`

export const DOCUMENT_SCRIPTS = { landfallStore: { lua: STORE }, landfallRead: { lua: READ } } as const
