import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { Readers } from '../../helpers/readers.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { CrashingService, type Stop, type StopPoint } from './crashing-service.ts'
import { until } from '../../helpers/until.ts'

// Runs two replicas, one of which tests kill, with direct access to their database, Redis and uploads.

/** Content of the uploads folder and of its table. */
export interface Storage {
  /** Storage keys of the rows. */
  readonly rows: readonly string[]
  /** Keys of rows whose file is missing, or has another size or hash. */
  readonly broken: readonly string[]
  /** Files without a row. */
  readonly orphans: readonly string[]
  readonly temporary: readonly string[]
}

/** Starts a replica to be killed and one that keeps running under a steady load of reads. */
export async function startReplicas (t: Test, ofVictim: Record<string, string> = {}) {
  const uploads = await testSettings(t)
  const folder = uploads.UPLOADS_DIR as string
  const settings = {
    ...uploads,
    REDIS_URL: await claimRedis(t),
    ACCESS_TOKEN_TTL: '86400', // tests set some clocks hours ahead
    DATABASE_POOL_SIZE: '20', // stopped requests keep their connections
    RATE_LIMIT_PUBLIC: '1000000',
    REFRESHES_PER_ADDRESS: '1000000',
    SIGN_UPS_PER_ADDRESS: '1000000'
  }
  const survivor = await CrashingService.start(t, settings)
  const victim = await CrashingService.start(t, { ...settings, MIGRATE_ON_START: 'false', ...ofVictim })
  const owner = await Owner.signUp(survivor.url)
  const page = await owner.createPage(survivor.url, '{"read":"all the time"}')
  const readers = new Readers(t, { urls: [survivor.url], publicIds: [page.public_id], intervalMs: 50 })
  let stop = () => {}
  const reads = readers.during(async () =>
    await new Promise<void>((resolve) => {
      stop = resolve
    })
  )
  /** Ends the load of reads and returns the reads. */
  const load = async () => {
    stop()
    return await reads
  }
  const database = new pg.Client(uploads.DATABASE_URL)
  await database.connect()
  t.teardown(async () => await database.end())

  /** Waits until PostgreSQL has ended the statements of killed processes, and returns the content. */
  async function look (): Promise<Storage> {
    await until(async () => {
      const { rows } = await database
        .query("SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND " +
          'pid <> pg_backend_pid()')
      return rows.length === 0
    }, 'PostgreSQL is idle')
    const { rows } = await database.query<
      { storage_key: string, byte_size: string, checksum: string }
    >('SELECT storage_key, byte_size, checksum FROM assets ORDER BY id')
    const keys = rows.map((row) => row.storage_key)
    const broken: string[] = []
    for (const { storage_key: key, byte_size: size, checksum } of rows) {
      const bytes = await readFile(join(folder, key)).catch(() => undefined)
      if (bytes?.length !== Number(size) || createHash('sha256').update(bytes).digest('hex') !== checksum) {
        broken.push(key)
      }
    }
    const names = (await readdir(folder)).filter((name) => name !== '.tmp' && name !== '.database')
    return {
      rows: keys,
      broken,
      orphans: names.filter((name) => !keys.includes(name)),
      temporary: await readdir(join(folder, '.tmp'))
    }
  }

  return { survivor, victim, owner, load, database, folder, settings, look }
}

/**
 * Runs an action once for each of its steps, and stops it before that step; once more to stop after the last
 * step, and once to the end. When the victim is killed afterwards, it is killed at all of these steps.
 *
 * @param steps matches the steps to stop at
 */
export async function stopAtEveryStep (
  victim: CrashingService,
  steps: RegExp,
  action: () => Promise<unknown>
): Promise<Stop[]> {
  const stops: Stop[] = []
  const stopAt = async (nth: number, when: StopPoint['when']): Promise<boolean> => {
    const stop = await victim.stopAt({ steps, nth, when }, action)
    if (stop !== undefined) stops.push(stop)
    return stop !== undefined
  }
  let count = 0
  while (await stopAt(count + 1, 'before')) count++
  if (count > 0) await stopAt(count, 'after')
  return stops
}
