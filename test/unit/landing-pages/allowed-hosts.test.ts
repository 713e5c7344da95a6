import { BlockList } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { networkMatcher } from '../../../src/modules/landing-pages/public/read-limit.ts'

t.test('networks contain the same IPv4 addresses as a BlockList of Node', async (t) => {
  const near = fc.tuple(fc.constantFrom(0, 1, 9, 10, 11, 127, 128, 255), fc.nat(255), fc.nat(3), fc.nat(255))
    .map((parts) => parts.join('.'))
  fc.assert(fc.property(near, near, fc.option(fc.nat(32)), (network, address, prefix) => {
    const list = new BlockList()
    if (prefix === null) list.addAddress(network)
    else list.addSubnet(network, prefix)
    const contains = networkMatcher([prefix === null ? network : `${network}/${prefix}`])
    t.equal(contains(address), list.check(address), `${address} in ${network}/${prefix ?? 32}`)
    t.ok(contains(network))
  }))
})
