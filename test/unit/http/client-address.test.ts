import { normalizeIP } from '@fastify/rate-limit'
import fc from 'fast-check'
import t from 'tap'
import { countedAddress } from '../../../src/http/client-address.ts'

t.test('an IPv6 address counts by its /64, in the form of @fastify/rate-limit', async (t) => {
  const group = fc.oneof(fc.constant('0'), fc.constant('0000'), fc.stringMatching(/^[0-9a-fA-F]{1,4}$/))
  const written = fc.array(group, { minLength: 8, maxLength: 8 }).map((groups) => groups.join(':'))
  fc.assert(fc.property(fc.oneof(fc.ipV6(), written), (address) => {
    t.equal(countedAddress(address), normalizeIP(address), address)
  }))
})

t.test('an IPv4 address counts by itself, in whatever form it is written', async (t) => {
  for (const address of ['192.0.2.7', '::ffff:192.0.2.7', '::ffff:c000:207', '0:0:0:0:0:ffff:192.0.2.7']) {
    t.equal(countedAddress(address), '192.0.2.7', address)
  }
})
