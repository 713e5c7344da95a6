import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { END, file, form, FORM, PNG } from '../../helpers/assets.ts'
import { call, Owner } from '../../helpers/client.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'
import { requestOf, requestWith } from '../../helpers/raw.ts'
import { claimRedis } from '../../helpers/servers.ts'

// Sends random bytes and randomly broken requests to every route. A seed determines the sequence.

interface RandomRun {
  /** Number of requests. */
  readonly sent: number
  /** Number of responses by status. */
  readonly statuses: Readonly<Record<string, number>>
  /** Requests that got a 500, and failed health checks. */
  readonly failures: readonly string[]
}

const REQUESTS = 2400

/** Sends 2,400 requests to a service, and as many again until a time has passed. SEED repeats a run. */
export async function testRandomBytes (t: Test, seconds = 0): Promise<void> {
  const service = await startServiceOnPostgres(t, {
    ...GENEROUS,
    LOG_LEVEL: 'info',
    REDIS_URL: await claimRedis(t),
    ACCESS_TOKEN_TTL: '86400'
  })
  const owner = await Owner.signUp(service.url)
  const end = performance.now() + seconds * 1000
  let seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  do {
    // New data in each round, because some of the broken requests still delete.
    const { sent, statuses, failures } = await throwRandomBytes(
      service.url,
      await soundRequests(service.url, owner),
      seed,
      (count) => count >= REQUESTS
    )
    t.comment(`SEED=${seed}: ${sent} requests: ${JSON.stringify(statuses)}`)
    t.same(failures, [], `seed ${seed}`)
    for (const status of [200, 400, 401, 404]) {
      t.ok((statuses[status] ?? 0) > 0, `some requests get ${status}`)
    }
    await sleep(200) // until the last requests are logged
    t.equal(service.child.exitCode, null, 'the process lives')
    seed++
  } while (t.passing() && performance.now() < end)
  t.same(errorLines(service.output()).slice(0, 20), [])
  t.equal(await owner.accessStatus(service.url), 200, 'the session is still valid')
}

/** Returns random numbers from 0 to 1 (mulberry32) that depend on the seed only. */
function randomNumbers (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Returns valid requests, which `mutate` breaks. */
async function soundRequests (url: string, owner: Owner): Promise<Buffer[]> {
  const page = await owner.createPage(url, '{"a":[1,2,{"b":"\\u00e9"}]}')
  const upload = await owner.upload(url, PNG, 'a.png')
  const asset = JSON.parse(upload.text) as { id: string, url: string }
  const auth = { Authorization: `Bearer ${owner.accessToken}` }
  const json = { ...auth, 'Content-Type': 'application/json' }
  const user = JSON.stringify({
    user: { email: owner.email, password: 'a wrong password', password_confirmation: 'another' }
  })
  const manage = `/manage/landing_pages/${page.id}`
  const chunked = `${
    requestOf('/auth/refresh', { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }, 'POST')
  }5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n`
  return [
    requestWith(user, 'POST', '/auth/sign_up', json),
    requestWith(user, 'POST', '/auth/sign_in', json),
    requestWith('{"refresh_token":"x"}', 'POST', '/auth/refresh', json),
    requestWith('{"refresh_token":"x"}', 'DELETE', '/auth/sign_out', json),
    requestOf('/auth/me', auth),
    requestWith('{"current_data":{"x":[1,"\\ud83d\\ude00",-0.0e1]}}', 'POST', '/landing_pages', json),
    requestOf('/manage/landing_pages?limit=2', auth),
    requestOf(manage, { ...auth, 'If-None-Match': page.etag }),
    requestWith('{"landing_page":{"current_data":[1]}}', 'PATCH', manage, { ...json, 'If-Match': '*' }),
    requestOf(manage, { ...auth, 'If-Match': '"x"' }, 'DELETE'),
    requestOf('/assets?limit=2&cursor=AAAAAAAAAAAAAAAAAAAAAA', auth),
    requestWith(form(file(PNG, 'b.png', 'image/png')), 'POST', '/assets', { ...auth, 'Content-Type': FORM }),
    requestOf(`/assets/${asset.id}`, auth),
    requestOf(`/assets/${asset.id.replace(/^./, '9')}`, auth, 'DELETE'),
    requestOf(`/landing_pages/${page.public_id}`, {
      'Accept-Encoding': 'br, gzip;q=0.5',
      'If-None-Match': `"x", ${page.etag}`,
      Origin: 'https://www.example.com'
    }),
    requestOf(`/landing_pages/${page.public_id}`, {}, 'HEAD'),
    requestOf(`/landing_pages/${page.public_id}`, { 'Access-Control-Request-Method': 'GET' }, 'OPTIONS'),
    requestOf(new URL(asset.url).pathname, { Range: 'bytes=0-9', 'If-Range': '"x"' }),
    requestOf('/health/live'),
    requestOf('/health/ready'),
    chunked
  ].map((request) => Buffer.from(request as string))
}

const PIECES = [
  ...['\r\n', '\r\n\r\n', '\0', '%00', '\\u0000', '\ud800', '..', ...'%"{[/?&,;'],
  ...['W/', '*', '-1', '9'.repeat(30), '1e999', 'null', '__proto__', 'x'.repeat(5000), END],
  ...['Content-Length: 3\r\n', 'Transfer-Encoding: chunked\r\n', 'Expect: 100-continue\r\n'],
  'Connection: close\r\n'
]

/** Returns a request that was cut, repeated, mixed with others, and mixed with tokens of parsers. */
function mutate (sound: readonly Buffer[], random: () => number): Buffer {
  const upTo = (count: number): number => Math.floor(random() * count)
  const choose = <T>(list: readonly T[]): T => list[upTo(list.length)] as T
  const noise = (length: number): Buffer => Buffer.from(Array.from({ length }, () => upTo(256)))
  if (random() < 0.05) return noise(1 + upTo(2000))
  let bytes: Buffer = Buffer.from(choose(sound))
  for (let changes = 1 + upTo(4); changes > 0; changes--) {
    const at = upTo(bytes.length)
    const head = bytes.subarray(0, at)
    const tail = bytes.subarray(at)
    const kind = upTo(6)
    if (kind === 0) bytes = Buffer.concat([head, noise(1), tail.subarray(1)])
    else if (kind === 1) bytes = Buffer.concat([head, Buffer.from(choose(PIECES)), tail])
    else if (kind === 2) bytes = Buffer.concat([head, tail.subarray(upTo(40))])
    else if (kind === 3) bytes = Buffer.concat([head, noise(upTo(20)), tail])
    else if (kind === 4) bytes = Buffer.concat([head, choose(sound).subarray(upTo(200))])
    else bytes = Buffer.concat([bytes, choose(sound)])
    if (bytes.length === 0) bytes = noise(1)
  }
  return bytes
}

/** Sends requests on 24 connections at a time until `ends` returns true. */
async function throwRandomBytes (
  url: string,
  sound: readonly Buffer[],
  seed: number,
  ends: (sent: number) => boolean
): Promise<RandomRun> {
  const random = randomNumbers(seed)
  const statuses: Record<string, number> = {}
  const failures: string[] = []
  let sent = 0
  const one = async () => {
    while (!ends(sent)) {
      sent++
      const bytes = mutate(sound, random)
      const response = await exchange(Number(new URL(url).port), bytes)
      for (const [, status = ''] of response.matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
        statuses[status] = (statuses[status] ?? 0) + 1
        if (status === '500') failures.push(bytes.toString('latin1').slice(0, 2000))
      }
      if (sent % 50 !== 0) continue
      const live = await call('GET', `${url}/health/live`).then(
        ({ status }) => status,
        ({ cause }: Error) => String(cause)
      )
      if (live !== 200) failures.push(`/health/live: ${live}`)
    }
  }
  await Promise.all(Array.from({ length: 24 }, one))
  return { sent, statuses, failures }
}

/** Returns the response, up to the close or a pause of the server: an incomplete request gets none. */
async function exchange (port: number, bytes: Buffer): Promise<string> {
  return await new Promise((resolve) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const done = () => {
      socket.destroy()
    }
    let silence = setTimeout(done, 1000)
    socket.on('data', (data) => {
      answer += data.toString('latin1')
      clearTimeout(silence)
      silence = setTimeout(done, 40)
    })
    socket.on('error', () => {}).on('close', () => {
      clearTimeout(silence)
      resolve(answer)
    })
  })
}

/** Returns the log lines about errors, warnings of Node and crashes. */
const errorLines = (output: string): string[] =>
  output.split('\n').filter((line) =>
    /"level":(50|60)\b/.test(line) || /^\s*at |Error:|Unhandled|Warning:/.test(line)
  )
