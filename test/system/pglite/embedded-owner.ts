import { startEmbedded } from '../../../src/infra/pglite/embedded.ts'
import { BoundedPool } from '../../../src/infra/postgres/pool.ts'

// A process that owns an embedded database and that embedded.test.ts kills. It inserts one row after the
// other and prints the number of each row after its commit.

const [dataDir = '', startAt = '0'] = process.argv.slice(2)
const print = (line: string) => {
  process.stdout.write(`# ${line}\n`)
}
const log = { info: print, warn: print }
const fail = (error: Error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}

try {
  const { connection } = await startEmbedded(dataDir, log, fail)
  const pool = new BoundedPool({ connection, max: 1, timeoutMs: 10_000 })
  await pool.query('CREATE TABLE IF NOT EXISTS written (number int PRIMARY KEY, filling text)')
  for (let number = Number(startAt);; number++) {
    await pool.query({
      text: 'INSERT INTO written VALUES ($1, $2)',
      values: [number, 'x'.repeat(number % 5000)]
    })
    process.stdout.write(`${number}\n`)
  }
} catch (error) {
  fail(error as Error)
}
