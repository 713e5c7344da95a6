import { randomBytes } from 'node:crypto'

let lastMs = 0
let sequence = 0

/**
 * Returns a UUID of version 7 for a new row. UUIDs of one process sort in order of creation. Within a
 * millisecond, a counter with a random start ensures this (RFC 9562, section 6.2, method 1).
 */
export function uuidv7 (): string {
  const bytes = randomBytes(16)
  const now = Date.now()
  if (now > lastMs) {
    lastMs = now
    sequence = bytes.readUInt16BE(6) & 0x7ff
  } else if (++sequence > 0xfff) {
    // The counter is full, or the clock was set back: use the next millisecond.
    lastMs++
    sequence = 0
  }
  bytes.writeUIntBE(lastMs, 0, 6)
  bytes.writeUInt16BE(0x7000 | sequence, 6)
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
