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
const json = { ...auth, 'Content-Type': 'application/json' }
const stranger = await signUp(app)
const theirs = await createPage(app, stranger)

t.test('every unknown or malformed identifier gets the same 404', async (t) => {
  const uuid = randomUUID()
  const ids = [
    ...[uuid, theirs.id, uuid.replaceAll('-', ''), `{${uuid}}`, `urn:uuid:${uuid}`, `${uuid}%00`],
    ...[`${uuid}%0a`, `${page.id}%20`, `${page.id}.json`, `${page.id};x=y`, `${page.id},${page.id}`],
    ...'00000000-0000-0000-0000-000000000000 %00 %0d%0aX:%20y %2e%2e . .. %2f ..%2f..%2fauth%2fme %5c'
      .split(' '),
    ...'%252e%252e %25 * :id -1 0 1 NaN null __proto__ constructor toString'.split(' '),
    ..."'%20OR%20'1'='1 %27;DROP%20TABLE%20users-- {} [] %F0%9F%98%80 %E2%80%AE".split(' '),
    ...['x'.repeat(12_000), '%41'.repeat(4000), 'A'.repeat(21), 'A'.repeat(23), randomPublicId()]
  ]
  const targets: [method: string, path: (id: string) => string, headers: Record<string, string>][] = [
    ['GET', (id) => `/manage/landing_pages/${id}`, auth],
    ['PATCH', (id) => `/manage/landing_pages/${id}`, auth],
    ['DELETE', (id) => `/manage/landing_pages/${id}`, auth],
    ['GET', (id) => `/manage/landing_pages/${id}/document`, auth],
    ['GET', (id) => `/assets/${id}`, auth],
    ['DELETE', (id) => `/assets/${id}`, auth],
    ['GET', (id) => `/landing_pages/${id}`, {}],
    ['GET', (id) => `/uploads/${id}`, {}]
  ]
  const bodies = new Set<string>()
  for (const [method, path, headers] of targets) {
    for (const id of ids) {
      const what = `${method} ${path(id).slice(0, 100)}`
      const request = requestOf(path(id), headers, method)
      const bytes = method === 'PATCH' ? requestWith('{"current_data":{}}', method, path(id), json) : request
      bodies.add((await probe.expect(bytes, 404, what, method)).body.toString())
    }
    for (const id of ['%', '%zz', '%4', '%ff', '%c0%ae', '%ed%a0%80', 'a%']) {
      await probe.expect(requestOf(path(id), headers, method), 400, `${method} ${path(id)}`, method)
    }
  }
  t.same([...bodies], ['{"errors":["Not found"]}'])
  t.equal((await app.inject({ url: `/landing_pages/${theirs.public_id}` })).statusCode, 200)
  const cases = [
    `/manage/landing_pages/${page.id.toUpperCase()}`,
    `/assets/${asset.id.toUpperCase()}`,
    `/manage/landing%5Fpages/${page.id}`
  ]
  for (const path of cases) await probe.expect(requestOf(path, auth), 200, path)
})

t.test('an invalid limit or cursor gets 422 on the lists', async (t) => {
  const bad = [
    ...'limit= limit=0 limit=101 limit=-1 limit=1.5 limit=0x10 limit=%201 limit=1&limit=1 limit'.split(' '),
    ...'limit=9999999999999999999999 limit=%ff cursor cursor= cursor=x cursor=a&cursor=b'.split(' '),
    ...[`limit=${'9'.repeat(10_000)}`, `cursor=${'A'.repeat(10_000)}`, `cursor=${randomUUID()}`],
    ...["cursor='%20OR%201=1", `cursor=${'A'.repeat(21)}B`, `cursor=${'A'.repeat(22)}==`]
  ]
  const good = ['', 'limit=1', 'limit=100', 'limit=007', '&&&', `cursor=${'A'.repeat(22)}`]
  const many = Array.from({ length: 2000 }, (_, n) => `a${n}=`).join('&')
  const unknown = ['x=y', 'limit[]=1', '__proto__=1', 'constructor=1', '%ff=%ff', many]
  for (const list of ['/manage/landing_pages', '/manage/landing_page_summaries', '/assets']) {
    const ask = async (query: string, status: number) =>
      (await probe.expect(requestOf(`${list}?${query}`, auth), status, `${list}?${query.slice(0, 100)}`)).body
        .toString()
    for (const query of bad) {
      const body = await ask(query, 422)
      t.match(body, /^{"errors":\["(Limit must be a whole number from 1 to 100|Cursor is invalid)"\]}$/)
    }
    for (const query of unknown) {
      t.match(await ask(query, 422), /^{"errors":\["Query parameter .* is unknown \(this route has only /)
    }
    for (const query of good) await ask(query, 200)
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
    ...[`W/ ${etag}`, `"x"${etag}`, `${etag}, x`, `"x" ${etag}`, `${etag};q=1`, `'${bare}'`, `*,${etag}`],
    ...['"*"', `"${bare.toLowerCase()}"`, `"${bare}-deflate"`, '"a",'.repeat(3500), ','.repeat(14_000)],
    ...['"'.repeat(14_000), 'W/'.repeat(7000), ' '.repeat(10_000), '"\u00e9"']
  ]
  const record = `/manage/landing_pages/${page.id}`
  for (const [path, headers, tag] of [[publicPath, {}, etag], [record, auth, recordTag]] as const) {
    const ask = async (tags: string, status: number) => {
      const request = Buffer.from(requestOf(path, { ...headers, 'If-None-Match': tags }), 'latin1')
      await probe.expect(request, status, `${path}: ${tags.slice(0, 100)}`)
    }
    for (const tags of matching(tag)) await ask(tags, 304)
    for (const tags of others) await ask(tags, 200)
  }
  // A read ignores a long list, because parsing it costs more than sending the document. A write parses it.
  const long = `${'"a", '.repeat(2000)}${etag}`
  await probe.expect(requestOf(publicPath, { 'If-None-Match': long }), 200, 'a long list')
  const update = async (tags: string, status: number) => {
    const request = requestWith('{}', 'PATCH', record, { ...json, 'If-Match': tags })
    await probe.expect(request, status, `If-Match: ${tags.slice(0, 100)}`, 'PATCH')
  }
  for (const tags of [etag, '*', long, `,${etag}`]) await update(tags, 200)
  for (const tags of [...others, `W/${etag}`]) await update(tags, 412)
})

t.test('a response is compressed only if Accept-Encoding asks for it', async (t) => {
  const large = await createPage(app, account, `["${'x'.repeat(5000)}"]`)
  const table: [encoding: string | undefined, accept: string[]][] = [
    ['br', ['br', 'BR', 'gzip, br', '*', 'gzip;q=0, *', 'identity;q=0, br;q=0.1']],
    ['gzip', ['gzip', 'x-gzip', 'gzip;q=1.0, br;q=0.5', 'br;q = 0, gzip', 'br;q=0, *']],
    [undefined, ['', 'identity', 'identity;q=0', 'identity, br;q=0.5', 'deflate', 'xbr', '*;q=0', 'br;q=0']],
    [undefined, ['br ; q = 0', 'br;q=0.000', 'br;Q=0', 'br;q=1.5', 'br;q=-1', 'br;q=x', 'br;q=Infinity']],
    [undefined, [',,,', ';;;', '__proto__, constructor', 'br,'.repeat(4000), ';q=1'.repeat(3000)]]
  ]
  for (const [encoding, values] of table) {
    for (const accept of values) {
      const request = requestOf(`/landing_pages/${large.public_id}`, { 'Accept-Encoding': accept })
      const { head } = await probe.expect(request, 200, accept.slice(0, 50))
      t.equal(/\r\ncontent-encoding: (.*)\r\n/i.exec(head)?.[1], encoding, accept.slice(0, 50))
    }
  }
})
