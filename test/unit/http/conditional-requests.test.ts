import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import { failedPrecondition, hasConditions, hasMatchingTag, isNotModified, matchesIfRange, parseHttpDate,
  parseTagList, requestedRange } from '../../../src/http/conditional-requests.ts'

const file = { etag: '"a"', modifiedAt: new Date('2026-01-02T03:04:05.678Z'), byteSize: 1000 }
const EARLIER = 'Fri, 02 Jan 2026 03:04:04 GMT'
const SAME = 'Fri, 02 Jan 2026 03:04:05 GMT'

t.test('parseTagList() returns the tags of a header, and none if it is malformed', async (t) => {
  t.same(parseTagList('*', 'strong'), '*')
  t.same(parseTagList(' * ', 'weak'), '*')
  t.same(parseTagList('"a"', 'strong'), ['a'])
  t.same(parseTagList('"a", W/"b" ,"c"', 'weak'), ['a', 'b', 'c'])
  t.same(
    parseTagList('"a", W/"b" ,"c"', 'strong'),
    ['a', 'c'],
    'a weak tag matches nothing in a strong comparison'
  )
  t.same(parseTagList(', "a",, "b",', 'strong'), ['a', 'b'], 'elements of a list may be empty')
  t.same(parseTagList('"a,b"', 'strong'), ['a,b'], 'a tag may contain a comma')
  t.same(parseTagList('', 'strong'), [])
  for (const malformed of ['a', '"a', '"a" "b"', '"a", b', 'w/"a"', '*, "a"']) {
    t.same(parseTagList(malformed, 'weak'), [], `malformed: ${malformed}`)
  }
})

t.test('hasMatchingTag() ignores weak tags in a strong comparison', async (t) => {
  t.equal(hasMatchingTag('"b", "a"', '"a"', 'strong'), true)
  t.equal(hasMatchingTag('W/"a"', '"a"', 'strong'), false)
  t.equal(hasMatchingTag('W/"a"', '"a"', 'weak'), true)
  t.equal(hasMatchingTag('*', '"a"', 'strong'), true)
  t.equal(hasMatchingTag('"b"', '"a"', 'weak'), false)
})

t.test('hasConditions() is true for each of the four conditional headers', async (t) => {
  t.equal(hasConditions({ accept: '*/*', range: 'bytes=0-1' }), false)
  for (const name of ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']) {
    t.equal(hasConditions({ [name]: 'x' }), true, name)
  }
})

/** Returns what a request leads to: 304, the name of the false precondition, or nothing. */
function evaluate (headers: IncomingHttpHeaders, method = 'GET'): string | undefined {
  const failed = failedPrecondition({ method, headers }, file)
  if (failed !== undefined) return failed
  return method === 'GET' && isNotModified(headers, file) ? 'not modified' : undefined
}

t.test('the conditions of a read are evaluated in the order of RFC 9110', async (t) => {
  t.equal(evaluate({}), undefined)
  t.equal(evaluate({ 'if-match': '"a"' }), undefined)
  t.equal(evaluate({ 'if-match': '"b"' }), 'If-Match')
  t.equal(evaluate({ 'if-unmodified-since': SAME }), undefined)
  t.equal(evaluate({ 'if-unmodified-since': EARLIER }), 'If-Unmodified-Since')
  t.equal(evaluate({ 'if-none-match': '"a"' }), 'not modified')
  t.equal(evaluate({ 'if-none-match': '"b"' }), undefined)
  t.equal(evaluate({ 'if-modified-since': SAME }), 'not modified')
  t.equal(evaluate({ 'if-modified-since': EARLIER }), undefined)
  t.equal(evaluate({ 'if-modified-since': '2026-01-02' }), undefined, 'a date in another form')

  t.test('tags take precedence over dates', async (t) => {
    t.equal(evaluate({ 'if-match': '"a"', 'if-unmodified-since': EARLIER }), undefined)
    t.equal(evaluate({ 'if-none-match': '"b"', 'if-modified-since': SAME }), undefined)
  })
  t.test('a failed precondition takes precedence over a 304', async (t) => {
    t.equal(evaluate({ 'if-match': '"b"', 'if-none-match': '"a"' }), 'If-Match')
  })
  t.test('preconditions also accept the other tags of the resource', async (t) => {
    const validators = { ...file, otherTags: ['"a-br"'] }
    t.equal(failedPrecondition({ method: 'GET', headers: { 'if-match': '"a-br"' } }, validators), undefined)
    t.equal(isNotModified({ 'if-none-match': '"a-br"' }, validators), false)
  })
})

t.test('in a write, If-None-Match is a precondition', async (t) => {
  t.equal(evaluate({ 'if-none-match': '"a"' }, 'PATCH'), 'If-None-Match')
  t.equal(evaluate({ 'if-none-match': 'W/"a"' }, 'DELETE'), 'If-None-Match')
  t.equal(evaluate({ 'if-none-match': '*' }, 'DELETE'), 'If-None-Match')
  t.equal(evaluate({ 'if-none-match': '"b"' }, 'DELETE'), undefined)
  t.equal(evaluate({ 'if-modified-since': SAME }, 'DELETE'), undefined)
})

t.test('parseHttpDate() reads the three formats of HTTP', async (t) => {
  const time = Date.UTC(1994, 10, 6, 8, 49, 37)
  t.equal(parseHttpDate('Sun, 06 Nov 1994 08:49:37 GMT'), time)
  t.equal(parseHttpDate('Sunday, 06-Nov-94 08:49:37 GMT'), time)
  t.equal(parseHttpDate('Sun Nov  6 08:49:37 1994'), time)
  t.equal(parseHttpDate('Thursday, 06-Nov-25 08:49:37 GMT'), Date.UTC(2025, 10, 6, 8, 49, 37))
  for (
    const text of [
      '',
      'yesterday',
      '1994-11-06',
      'Sun, 06 Nov 1994 08:49:37 +0000',
      'Sun, 06 Nov 1994 99:49:37 GMT'
    ]
  ) t.equal(parseHttpDate(text), undefined, text)
})

t.test('matchesIfRange() accepts the strong tag or the date of the file', async (t) => {
  t.equal(matchesIfRange('"a"', file), true)
  t.equal(matchesIfRange('W/"a"', file), false)
  t.equal(matchesIfRange('"b"', file), false)
  t.equal(matchesIfRange(SAME, file), true)
  t.equal(matchesIfRange(EARLIER, file), false)
})

t.test('requestedRange() returns a single satisfiable range, or else the whole file or an error', async (t) => {
  const rangeOf = (range: string, ifRange?: string) =>
    requestedRange({ range, ...(ifRange !== undefined && { 'if-range': ifRange }) }, file)
  t.same(requestedRange({}, file), 'whole')
  t.same(rangeOf('bytes=0-0'), { first: 0, last: 0 })
  t.same(rangeOf('bytes=10-'), { first: 10, last: 999 })
  t.same(rangeOf('bytes=10-5000'), { first: 10, last: 999 }, 'a range ends at the end of the file')
  t.same(rangeOf('bytes=-10'), { first: 990, last: 999 })
  t.same(rangeOf('bytes=-1000'), 'whole', 'a range of all bytes is the whole file')
  for (const range of ['bytes=1000-', 'bytes=-0']) {
    t.same(rangeOf(range), 'not satisfiable', range)
  }
  for (const range of ['bytes=0-1,3-4', 'lines=1-2', 'nonsense', 'bytes=9-8', 'bytes=x', 'bytes=-']) {
    t.same(rangeOf(range), 'whole', range)
  }
  t.same(rangeOf('bytes=0-0', '"a"'), { first: 0, last: 0 })
  t.same(rangeOf('bytes=0-0', '"b"'), 'whole')
})
