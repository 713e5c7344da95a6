import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import type { Teardown } from './servers.ts'

// A DNS server on the loopback address, for names that lead to chosen addresses.

const TYPES: Readonly<Record<number, 'A' | 'AAAA'>> = { 1: 'A', 28: 'AAAA' }

/**
 * Starts a DNS server; the end of the test stops it.
 *
 * @param answer returns the addresses of a name; of those, each question gets the ones of its kind
 * @returns the address and port, for `setServers`, and the names that were asked for, of both kinds
 */
export async function startDnsServer (
  t: Teardown,
  answer: (name: string, type: 'A' | 'AAAA') => readonly string[]
) {
  const questions: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (query, client) => {
    const { name, end } = readName(query)
    const type = TYPES[query.readUInt16BE(end)]
    questions.push(name)
    const addresses = type === undefined ? []
      : answer(name, type).filter((address) => isIPv6(address) === (type === 'AAAA'))
    const header = Buffer.from(query.subarray(0, 12))
    header.writeUInt16BE(0x8180, 2)
    header.writeUInt16BE(addresses.length, 6)
    header.writeUInt32BE(0, 8)
    const records = addresses.map((address) => {
      const bytes = bytesOf(address)
      const head = Buffer.from([0xc0, 12, 0, isIPv6(address) ? 28 : 1, 0, 1, 0, 0, 0, 0, 0, bytes.length])
      return Buffer.concat([head, bytes])
    })
    socket.send(Buffer.concat([header, query.subarray(12, end + 4), ...records]), client.port, client.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.teardown(() => socket.close())
  return { address: `127.0.0.1:${socket.address().port}`, questions }
}

function readName (query: Buffer): { name: string, end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] as number; length > 0; length = query[at] as number) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  return { name: labels.join('.'), end: at + 1 }
}

/** IPv6 addresses must be written with all eight groups. */
const bytesOf = (address: string): Buffer =>
  isIPv6(address)
    ? Buffer.from(address.split(':').map((group) => group.padStart(4, '0')).join(''), 'hex')
    : Buffer.from(address.split('.').map(Number))
