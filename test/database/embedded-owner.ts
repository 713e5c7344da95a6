import { startEmbedded } from '../../src/database/embedded.ts'
import { BoundedPool } from '../../src/database/pool.ts'

// Not a test: a process that owns an embedded database, for embedded.test.ts to kill. Writes rows one after the other
// and prints the number of each when it is committed.

const [dataDir = '', startAt = '0'] = process.argv.slice(2)
const log = { info: (line: string) => { process.stdout.write(`# ${line}\n`) } }
const fail = (error: Error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}

try {
  const { connection } = await startEmbedded(dataDir, log, fail)
  const pool = new BoundedPool({ connection, max: 1, timeoutMs: 10_000 })
  await pool.query('CREATE TABLE IF NOT EXISTS written (number int PRIMARY KEY, filling text)')
  for (let number = Number(startAt); ; number++) {
    await pool.query({ text: 'INSERT INTO written VALUES ($1, $2)', values: [number, 'x'.repeat(number % 5000)] })
    process.stdout.write(`${number}\n`)
  }
} catch (error) {
  fail(error as Error)
}
