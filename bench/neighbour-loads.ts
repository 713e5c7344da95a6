import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'

// What greedy accounts and addresses do in `npm run bench:neighbours`, and what somebody else does beside it.

export const PERIOD_MS = 3000
export const PASSWORD = 'correct horse battery'
const MEBIBYTE = 1024 * 1024
const RETRY_MS = 50
const BOUNDARY = 'boundary'
export const JSON_TYPE = { 'content-type': 'application/json' }
export const FORM_TYPE = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` }
const PATCH_TYPE = { 'content-type': 'application/json-patch+json' }

/** An account with a page. */
export interface Account {
  readonly url: string
  readonly email: string
  readonly authorization: string
  readonly pageId: string
}

/** The accounts of a load. The first one also has large documents. */
export interface Owners {
  readonly url: string
  readonly accounts: [Account, ...Account[]]
}

export interface Response {
  /** 0 if the connection was closed without a response. */
  readonly status: number
  readonly body: string
  /** Milliseconds until the last byte of the response. */
  readonly ms: number
}

export interface Load {
  /** How many requests are sent at once, again and again. */
  readonly count: number
  /** Returns a function that sends one of them. */
  readonly send: (owners: Owners) => () => Promise<Response>
  /** What somebody else sends meanwhile. All of it must succeed. */
  readonly neighbour?: Neighbour
}

export interface Neighbour {
  readonly name: string
  readonly perSecond: number
  readonly send: (reader: Account) => Promise<Response>
}

const owners = new Agent({ keepAlive: true })
/** Four addresses for loads, and one for somebody else. */
const addresses = [2, 3, 4, 5].map((host) => new Agent({ keepAlive: true, localAddress: `127.0.0.${host}` }))
const neighbourAddress = new Agent({ keepAlive: true, localAddress: '127.0.0.6' })

export function closeAgents (): void {
  for (const agent of [owners, neighbourAddress, ...addresses]) agent.destroy()
}

const WRITE: Neighbour = {
  name: 'write of somebody else',
  perSecond: 20,
  send: async (reader) => await patch(neighbourAddress, reader, `["${'x'.repeat(2000)}"]`)
}

const SIGN_IN: Neighbour = {
  name: 'sign-in of somebody else',
  perSecond: 5,
  send: async ({ url, email }) => await signIn(neighbourAddress, url, email)
}

const PATCH: Neighbour = {
  name: 'patch of somebody else',
  perSecond: 5,
  send: async (reader) =>
    await applyPatch(neighbourAddress, reader, '[{"op":"add","path":"/0","value":"changed"}]')
}

const PICTURE: Neighbour = {
  name: 'picture of somebody else',
  perSecond: 1,
  send: async (reader) => await publishPicture(neighbourAddress, reader, await drawPicture('jpeg', 400))
}

export const LOADS: Readonly<Record<string, Load>> = {
  'sign-ins': {
    count: 200,
    send: ({ url, accounts: [{ email }] }) => async () => await signIn(owners, url, email)
  },
  'sign-ins of three addresses to nine accounts': {
    count: 90,
    send ({ url, accounts }) {
      const next = counter()
      return async () => {
        const n = next()
        const agent = addresses[n % 3] as Agent
        const end = performance.now() + PERIOD_MS
        for (;;) {
          const answer = await signIn(agent, url, (accounts[1 + n % 9] as Account).email)
          if (performance.now() > end) return answer
          if (answer.status !== 200) await sleep(RETRY_MS)
        }
      }
    },
    neighbour: SIGN_IN
  },
  'announced bodies of four addresses': {
    count: 40,
    send ({ url }) {
      const next = counter()
      const head = requestHead('POST', '/auth/sign_in', { ...JSON_TYPE, 'content-length': '60000' })
      return async () => await hold(url, next() % 4, head + `{${' '.repeat(1500)}`)
    },
    neighbour: WRITE
  },
  'lists that two addresses never read': {
    count: 120,
    send ({ url, accounts: [{ authorization }] }) {
      const next = counter()
      const head = requestHead('GET', '/manage/landing_pages?limit=100', { authorization })
      return async () => await hold(url, next() % 2, head)
    },
    neighbour: WRITE
  },
  'slow patches of forty accounts': {
    count: 40,
    send ({ accounts }) {
      const next = counter()
      // Each operation copies the document into itself.
      const operations = Array.from({ length: 900 }, (_, n) => `{"op":"copy","from":"/0","path":"/${n + 1}"}`)
      const body = `[${operations.join()}]`
      return async () => await applyPatch(owners, accounts[next() % accounts.length] as Account, body)
    },
    neighbour: PATCH
  },
  'AVIFs of 8 million pixels, from four addresses': {
    count: 16,
    send ({ accounts: [owner] }) {
      const next = counter()
      return async () => {
        const agent = addresses[next() % 4] as Agent
        return await publishPicture(agent, owner, await drawPicture('avif', 2828))
      }
    },
    neighbour: PICTURE
  },
  'writes of 1 MiB, many members': {
    count: 16,
    send: ({ accounts: [owner] }) => {
      const document = `{${Array.from({ length: 100_000 }, (_, n) => `"${n}":0`).join()}}`
      return async () => await patch(owners, owner, document)
    }
  },
  'writes of 1 MiB, empty arrays': {
    count: 16,
    send: ({ accounts: [owner] }) => {
      const document = `[${Array.from({ length: 340_000 }, () => '[]').join()}]`
      return async () => await patch(owners, owner, document)
    }
  },
  'lists of large documents': {
    count: 60,
    send: ({ url, accounts: [{ authorization }] }) => async () =>
      await ask(owners, 'GET', `${url}/manage/landing_pages?limit=100`, { authorization })
  },
  'uploads of a JPEG of zeros': {
    count: 16,
    send: ({ url, accounts: [{ authorization }] }) => {
      const picture = Buffer.alloc(MEBIBYTE)
      picture.set([0xff, 0xd8, 0xff])
      const body = form('a.jpg', picture)
      return async () => await ask(owners, 'POST', `${url}/assets`, { authorization, ...FORM_TYPE }, body)
    }
  }
}

/** Returns a function that counts its calls, from 0. */
function counter (): () => number {
  let count = 0
  return () => count++
}

async function patch (
  agent: Agent,
  { url, authorization, pageId }: Account,
  document: string
): Promise<Response> {
  const headers = { ...JSON_TYPE, authorization }
  const body = `{"current_data":${document}}`
  return await ask(agent, 'PATCH', `${url}/manage/landing_pages/${pageId}`, headers, body)
}

async function applyPatch (agent: Agent, account: Account, operations: string): Promise<Response> {
  const { url, authorization, pageId } = account
  const headers = { ...PATCH_TYPE, authorization }
  return await ask(agent, 'PATCH', `${url}/manage/landing_pages/${pageId}/document`, headers, operations)
}

const pictures = new Map<string, Promise<Buffer>>()

/** A square of one colour. */
async function drawPicture (format: 'avif' | 'jpeg', width: number): Promise<Buffer> {
  const drawn = pictures.get(format) ??
    sharp({ create: { width, height: width, channels: 3, background: '#456' } })
      .toFormat(format).toBuffer()
  pictures.set(format, drawn)
  return await drawn
}

/** Uploads a picture and asks for its smallest variant. */
async function publishPicture (
  agent: Agent,
  { url, authorization }: Account,
  bytes: Buffer
): Promise<Response> {
  const uploaded = await ask(
    agent,
    'POST',
    `${url}/assets`,
    { authorization, ...FORM_TYPE },
    form('a.jpg', bytes)
  )
  if (uploaded.status !== 201) return uploaded
  const { variants: [{ url: variant }] } = JSON.parse(uploaded.body)
  return await ask(agent, 'GET', url + new URL(variant).pathname)
}

export async function signIn (agent: Agent, url: string, email: string): Promise<Response> {
  const user = { email, password: PASSWORD }
  return await ask(agent, 'POST', `${url}/auth/sign_in`, JSON_TYPE, JSON.stringify({ user }))
}

/** The body of an upload. */
export const form = (filename: string, bytes: Buffer): Buffer =>
  Buffer.concat([
    Buffer
      .from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="asset[file]"; ` +
        `filename="${filename}"\r\n\r\n`),
    bytes,
    Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
  ])

const requestHead = (method: string, path: string, headers: Record<string, string>): string =>
  [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...Object.entries(headers).map((pair) => pair.join(': '))]
    .join('\r\n') + '\r\n\r\n'

/** Sends some bytes, and reads nothing until the service closes the connection or the period ends. */
async function hold (url: string, address: number, bytes: string): Promise<Response> {
  const started = performance.now()
  const { hostname: host, port } = new URL(url)
  const socket = connect({ host, port: Number(port), localAddress: `127.0.0.${2 + address}` })
  socket.on('error', () => {}).pause().write(bytes)
  const end = new AbortController()
  socket.once('close', () => end.abort())
  await sleep(PERIOD_MS, undefined, { signal: end.signal }).catch(() => {})
  socket.destroy()
  return { status: 0, body: '', ms: performance.now() - started }
}

export async function ask (
  agent: Agent,
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: string | Buffer
): Promise<Response> {
  const started = performance.now()
  return await new Promise((resolve, reject) => {
    request(url, { method, agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (data: string) => {
        text += data
      }).on('end', () => {
        resolve({ status: response.statusCode as number, body: text, ms: performance.now() - started })
      }).on('error', reject)
    }).on('error', reject).end(body)
  })
}
