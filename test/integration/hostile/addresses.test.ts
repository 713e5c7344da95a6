import { randomUUID } from 'node:crypto'
import t from 'tap'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { createPage, signUp } from '../../helpers/app.ts'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Identifiers, queries and conditions, sent as raw bytes because HTTP clients would normalize them. Tests of
// the paths below /uploads/: test/integration/assets/serve.test.ts.

const service = await hostileService(t)
const { account, page, asset, app } = service
const probe = new Probe(t, service.url)
const auth = { Authorization: account.headers.authorization }
const stranger = await signUp(app)
const theirs = await createPage(app, stranger)

t.test('every unknown or malformed identifier gets the same 404', async (t) => {
  const uuid = randomUUID()
  const ids: string[] = [
    ...[
      uuid,
      theirs.id,
      uuid.replaceAll('-', ''),
      `{${uuid}}`,
      `urn:uuid:${uuid}`,
      `${uuid}%00`,
      `%00${uuid}`
    ],
    ...[`${uuid}%0a`, `${page.id}%20`, `${page.id}.json`, `${page.id};x=y`, `${page.id},${page.id}`],
    ...'00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff'.split(' '),
    ...'%00 %0d%0aX:%20y %2e %2e%2e . .. ... %2f a%2fb ..%2f..%2fauth%2fme %5c %252e%252e %25 * :id'
      .split(' '),
    ...'%3aid $1 -1 0 1 1e3 NaN null undefined true [object%20Object] __proto__ constructor'.split(' '),
    ..."toString '%20OR%20'1'='1 %27;DROP%20TABLE%20users-- {} [] %F0%9F%98%80 %EF%BC%91 %E2%80%AE"
      .split(' '),
    ...['x'.repeat(12_000), '%41'.repeat(4000), 'A'.repeat(21), 'A'.repeat(23), randomPublicId()]
  ]
  const targets:
    (readonly [method: string, path: (id: string) => string, headers: Record<string, string>])[] = [
      ['GET', (id) => `/manage/landing_pages/${id}`, auth],
      ['PATCH', (id) => `/manage/landing_pages/${id}`, auth],
      ['DELETE', (id) => `/manage/landing_pages/${id}`, auth],
      ...['reads', 'document', 'draft', 'revisions', 'publication'].map((what) =>
        ['GET', (id: string) => `/manage/landing_pages/${id}/${what}`, auth] as const
      ),
      ['GET', (id) => `/assets/${id}`, auth],
      ['DELETE', (id) => `/assets/${id}`, auth],
      ['GET', (id) => `/landing_pages/${id}`, {}],
      ['GET', (id) => `/uploads/${id}`, {}]
    ]
  const bodies = new Set<string>()
  for (const [method, path, headers] of targets) {
    for (const id of ids) {
      const what = `${method} ${path(id).slice(0, 100)}`
      const bytes = method === 'PATCH'
        ? requestWith('{"current_data":{}}', method, path(id), {
          ...headers,
          'Content-Type': 'application/json'
        }) : requestOf(path(id), headers, method)
      const response = await probe.send(bytes, what, method)
      probe.is(response, 404, what)
      bodies.add(response.body.toString())
    }
    for (const id of ['%', '%zz', '%4', '%ff', '%c0%ae', '%ed%a0%80', 'a%']) {
      const what = `${method} ${path(id)}`
      probe.is(await probe.send(requestOf(path(id), headers, method), what, method), 400, what)
    }
  }
  t.same([...bodies], ['{"errors":["Not found"]}'])
  t.equal((await app.inject({ url: `/landing_pages/${theirs.public_id}` })).statusCode, 200)
  for (
    const path of [
      `/manage/landing_pages/${page.id.toUpperCase()}`,
      `/assets/${asset.id.toUpperCase()}`,
      `/manage/landing%5Fpages/${page.id}`
    ]
  ) probe.is(await probe.send(requestOf(path, auth), path), 200, path)
})

t.test('an invalid limit or cursor gets 422 on the lists', async (t) => {
  const bad = [
    ...'limit= limit=0 limit=101 limit=-1 limit=1.5 limit=1e1 limit=0x10 limit=%201 limit=1%20'.split(' '),
    ...'limit=%2b1 limit=%00 limit=NaN limit=9999999999999999999999 limit=1&limit=1 limit limit=%ff'
      .split(' '),
    ...`limit=%EF%BC%91 cursor cursor= cursor=x cursor=%00 cursor=a&cursor=b cursor=%ff`.split(' '),
    ...[`limit=${'9'.repeat(10_000)}`, `cursor=${'A'.repeat(10_000)}`, `cursor=${randomUUID()}`],
    ...["cursor='%20OR%201=1", `cursor=${'A'.repeat(21)}B`, `cursor=${'A'.repeat(22)}==`]
  ]
  const limits = ['', 'limit=1', 'limit=100', 'limit=007', '&&&']
  const good = [...limits, `cursor=${'A'.repeat(22)}`, `cursor=${'_'.repeat(21)}w`]
  const unknown = [
    'x=y',
    'limit[]=1',
    'limit[a]=1',
    '__proto__=1',
    'constructor=1',
    '%ff=%ff',
    Array.from({ length: 2000 }, (_, n) => `a${n}=`).join('&')
  ]
  for (const list of ['/manage/landing_pages', '/manage/landing_page_summaries', '/assets']) {
    for (const query of bad) {
      const response = await probe.send(requestOf(`${list}?${query}`, auth), query.slice(0, 100))
      probe.is(response, 422, `${list}?${query.slice(0, 100)}`)
      t.match(
        response.body.toString(),
        /^{"errors":\["(Limit must be a whole number from 1 to 100|Cursor is invalid)"\]}$/
      )
    }
    for (const query of unknown) {
      const response = await probe.send(requestOf(`${list}?${query}`, auth), query.slice(0, 100))
      probe.is(response, 422, `${list}?${query.slice(0, 100)}`)
      t.match(response.body.toString(), /^{"errors":\["Query parameter .* is unknown \(this route has only /)
    }
    for (const query of good) {
      probe.is(
        await probe.send(requestOf(`${list}?${query}`, auth), query.slice(0, 100)),
        200,
        `${list}?${query.slice(0, 100)}`
      )
    }
  }
})

t.test('a condition that is not a list of entity tags never matches', async () => {
  const { etag, recordTag } = page
  const bare = etag.slice(1, -1)
  const publicPath = `/landing_pages/${page.public_id}`
  const matching = (tag: string) => [
    ...[tag, `W/${tag}`, '*', ` ${tag} `, `${tag},`, `,,${tag}`, `"x",${tag}`, `"x"\t,\t${tag} , "y"`],
    `"a,b", ${tag}`
  ]
  const others = [
    ...['', '""', '"x"', bare, `"${bare}`, `${bare}"`, `${etag}x`, `x${etag}`, `W/W/${etag}`, `w/${etag}`],
    ...[`W/ ${etag}`, `"x"${etag}`, `${etag}, x`, `"x" ${etag}`, `"x";${etag}`, `${etag};q=1`, `'${bare}'`],
    ...[`*,${etag}`, '"*"', `"${bare.toLowerCase()}"`, `"${bare}-deflate"`, `"${'x'.repeat(10_000)}"`],
    ...['"a",'.repeat(3500), ','.repeat(14_000), '"'.repeat(14_000), 'W/'.repeat(7000), ' '.repeat(10_000)],
    '"\u00e9"'
  ]
  for (
    const [path, headers, tag] of [[publicPath, {}, etag], [
      `/manage/landing_pages/${page.id}`,
      auth,
      recordTag
    ]] as const
  ) {
    for (const tags of matching(tag)) {
      probe.is(
        await probe.send(Buffer.from(requestOf(path, { ...headers, 'If-None-Match': tags }), 'latin1'), tags),
        304,
        `${path}: ${tags}`
      )
    }
    for (const tags of others) {
      probe.is(
        await probe.send(
          Buffer.from(requestOf(path, { ...headers, 'If-None-Match': tags }), 'latin1'),
          tags.slice(0, 100)
        ),
        200,
        `${path}: ${tags.slice(0, 100)}`
      )
    }
  }
  // A read ignores a long list, because parsing it costs more than sending the document. A write parses it.
  const long = `${'"a", '.repeat(2000)}${etag}`
  probe.is(await probe.send(requestOf(publicPath, { 'If-None-Match': long }), 'long'), 200, 'a long list')
  const update = (tags: string) =>
    Buffer.from(
      requestWith('{}', 'PATCH', `/manage/landing_pages/${page.id}`, {
        ...auth,
        'Content-Type': 'application/json',
        'If-Match': tags
      }).toString(),
      'latin1'
    )
  for (const tags of [etag, '*', long, `,${etag}`]) {
    probe.is(
      await probe.send(update(tags), tags.slice(0, 100), 'PATCH'),
      200,
      `If-Match: ${tags.slice(0, 100)}`
    )
  }
  for (const tags of [...others, `W/${etag}`]) {
    probe.is(
      await probe.send(update(tags), tags.slice(0, 100), 'PATCH'),
      412,
      `If-Match: ${tags.slice(0, 100)}`
    )
  }
})

t.test('a response is compressed only if Accept-Encoding asks for it', async (t) => {
  const large = await createPage(app, account, `["${'x'.repeat(5000)}"]`)
  const table: [accept: string, encoding: string | undefined][] = [
    ['br', 'br'],
    ['gzip', 'gzip'],
    ['BR', 'br'],
    ['gzip, br', 'br'],
    ['gzip;q=1.0, br;q=0.5', 'gzip'],
    ['gzip;q=0, *', 'br'],
    ['identity, br;q=0.5', undefined],
    ['identity;q=0, br;q=0.1', 'br'],
    ['x-gzip', 'gzip'],
    ['br;q=0', undefined],
    ['br ; q = 0', undefined],
    ['br;q = 0, gzip', 'gzip'],
    ['br;q=0.000', undefined],
    ['br;Q=0', undefined],
    ['*', 'br'],
    ['*;q=0', undefined],
    ['br;q=0, *', 'gzip'],
    ['br;q=1.5', undefined],
    ['br;q=-1', undefined],
    ['br;q=x', undefined],
    ['br;q=', undefined],
    ['br;q=Infinity', undefined],
    ['identity', undefined],
    ['identity;q=0', undefined],
    ['deflate', undefined],
    ['xbr', undefined],
    ['', undefined],
    [',,,', undefined],
    [';;;', undefined],
    ['__proto__, constructor', undefined],
    ['br,'.repeat(4000), undefined],
    [';q=1'.repeat(3000), undefined]
  ]
  for (const [accept, encoding] of table) {
    const response = await probe.send(
      requestOf(`/landing_pages/${large.public_id}`, { 'Accept-Encoding': accept }),
      accept.slice(0, 50)
    )
    probe.is(response, 200, accept.slice(0, 50))
    t.equal(/\r\ncontent-encoding: (.*)\r\n/i.exec(response.head)?.[1], encoding, accept.slice(0, 50))
  }
})
