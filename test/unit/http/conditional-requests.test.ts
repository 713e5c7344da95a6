import t from 'tap'
import { parseHttpDate } from '../../../src/http/conditional-requests.ts'

t.test('parseHttpDate() reads the three formats of HTTP', async (t) => {
  const time = Date.UTC(1994, 10, 6, 8, 49, 37)
  t.equal(parseHttpDate('Sun, 06 Nov 1994 08:49:37 GMT'), time)
  t.equal(parseHttpDate('Sunday, 06-Nov-94 08:49:37 GMT'), time)
  t.equal(parseHttpDate('Sun Nov  6 08:49:37 1994'), time)
  t.equal(parseHttpDate('Thursday, 06-Nov-25 08:49:37 GMT'), Date.UTC(2025, 10, 6, 8, 49, 37))
  const cases = [
    '',
    'yesterday',
    '1994-11-06',
    'Sun, 06 Nov 1994 08:49:37 +0000',
    'Sun, 06 Nov 1994 99:49:37 GMT'
  ]
  for (const text of cases) t.equal(parseHttpDate(text), undefined, text)
})
