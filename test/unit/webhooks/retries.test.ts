import t from 'tap'
import { retryAfterSeconds } from '../../../src/http/send-request.ts'
import { retrySeconds } from '../../../src/modules/webhooks/sending/sender.ts'

t.test('the attempts of a message take about three days', async (t) => {
  const waits = Array.from({ length: 10 }, (_, index) => retrySeconds(index + 1, undefined, 0.5) as number)
  t.same(waits, [5, 60, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400])
  t.equal(retrySeconds(11), undefined)
  t.same([0, 0.5, 1].map((random) => Math.round(retrySeconds(1, undefined, random) as number)), [4, 5, 6])
})

t.test('a Retry-After of up to an hour is waited for', async (t) => {
  const inTenMinutes = new Date(Date.now() + 600_000).toUTCString()
  const cases: [header: string, seconds: number][] = [
    ['120', 120],
    ['1', 5],
    ['999999', 3600],
    ['99999999999999', 5],
    ['-1', 5],
    ['soon', 5],
    ['', 5],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 5]
  ]
  const waitAfter = (header: string): number => retrySeconds(1, retryAfterSeconds(header), 0.5) as number
  for (const [header, seconds] of cases) t.equal(waitAfter(header), seconds, header)
  t.ok(Math.abs(waitAfter(inTenMinutes) - 600) < 5)
  t.equal(retrySeconds(11, 60), undefined, 'after the last attempt none follows')
})
