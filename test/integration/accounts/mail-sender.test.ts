import { createServer, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildTestApp, signUp, testSettings } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { query } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// How the queue of mails is sent: each mail once, in spite of mail servers and processes that fail.

/** Adds a notice to the queue, as the statement of a change would. */
async function queue (
  url: string,
  { recipient = 'a@example.com', kind = 'password_changed', age = '0' }: Partial<Record<string, string>> = {}
) {
  await query(
    url,
    `INSERT INTO mails (recipient, kind, created_at)
    VALUES ('${recipient}', '${kind}', now() - interval '${age}')`
  )
}

/** The mails of the queue. `due` is the number of seconds until the next attempt may begin. */
const waiting = async (url: string) =>
  await query(
    url,
    'SELECT recipient, kind, attempts, EXTRACT(epoch FROM due_at - now())::float8 AS due FROM mails'
  ) as unknown as readonly { recipient: string, kind: string, attempts: number, due: number }[]

/** A TCP server that treats each connection as `handle` says. */
async function startBrokenServer (t: Test, handle: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    handle(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function setUp (t: Test, mail: Record<string, string>) {
  const settings: Record<string, string> = {
    ...await testSettings(t),
    MAIL_FROM: 'noreply@landfall.test',
    ...mail
  }
  const logged: { msg: string }[] = []
  const logger = pino({ level: 'info' }, { write: (line: string) => logged.push(JSON.parse(line)) })
  const app = await buildTestApp(t, settings, logger)
  return { app, url: settings.DATABASE_URL as string, settings, logged }
}

const server = await startMailServer(t)
const timers = t.capture(globalThis, 'setInterval', setInterval)
const { app, url, settings } = await setUp(t, server.settings)
/** The checks of the queue that nobody asks for. */
const checks = timers().filter(({ args: [, delay] }) => delay === 5000).map(({ args: [run] }) => run)
timers.restore()

t.test('a notice is sent once, and its row is deleted', async (t) => {
  await queue(url, { recipient: 'you@example.com' })
  const [{ id }] = await query(url, 'SELECT id FROM mails') as [{ id: string }]
  app.wakeMailSender()
  const mail = await server.mailTo('you@example.com')
  t.match(mail, {
    from: 'noreply@landfall.test',
    to: ['you@example.com'],
    headers: {
      from: 'Landfall <noreply@landfall.test>',
      to: 'you@example.com',
      subject: 'Your password was changed',
      'message-id': `<${id}@landfall.test>`,
      'auto-submitted': 'auto-generated'
    },
    text: /password of the account you@example\.com at http:\/\/landfall\.test was changed/
  })
  await until(async () => (await waiting(url)).length === 0)
  await queue(url, { recipient: 'last@example.com' })
  app.wakeMailSender()
  await server.mailTo('last@example.com')
  t.equal(server.mails.length, 2)
})

t.test('a process that nobody wakes looks for the mails of others every five seconds', async (t) => {
  t.ok(checks.length > 0)
  await queue(url, { recipient: 'unknown@example.com' })
  for (const check of checks) check()
  await server.mailTo('unknown@example.com')
})

t.test('two replicas send each mail once', async (t) => {
  const before = server.mails.length
  const other = await buildTestApp(t, settings)
  for (let n = 0; n < 40; n++) await queue(url, { recipient: `a${n}@example.com` })
  for (const one of [app, other]) one.wakeMailSender()
  await until(async () => (await waiting(url)).length === 0)
  const recipients = server.mails.slice(before).flatMap(({ to }) => to)
  t.equal(recipients.length, 40)
  t.equal(new Set(recipients).size, 40)
})

/** A reply that refuses a mail, at RCPT TO or after the data. Some have the words of well-known servers. */
type Reply = readonly [command: 'RCPT TO' | 'DATA', status: number, message: string]

const PERMANENT: Record<string, Reply> = {
  'an address that does not exist': ['RCPT TO', 550, '5.1.1 No such user'],
  'a domain that takes no mail': ['RCPT TO', 556, '5.1.10 Recipient address has null MX'],
  'a mailbox that is disabled': ['RCPT TO', 550, '5.2.1 Mailbox disabled'],
  'an address of the wrong form': ['RCPT TO', 501, 'Malformed address'],
  'an address that is checked after the data': ['DATA', 550, '5.1.1 No such user'],
  'its size': ['DATA', 552, '5.3.4 Message too big'],
  'its format': ['DATA', 554, '5.6.0 Bad message']
}
const TEMPORARY: Record<string, Reply> = {
  'a mailbox that is busy': ['RCPT TO', 450, '4.2.1 Try again later'],
  'a relay that is not allowed': ['RCPT TO', 554, '5.7.1 Relay access denied'],
  'a relay that is not allowed, without an enhanced status': ['RCPT TO', 550, 'relay not permitted'],
  'a domain that is not served': ['RCPT TO', 553, "sorry, that domain isn't in my list (#5.7.1)"],
  'a sender that is refused': ['RCPT TO', 550, '5.1.8 Sender address rejected'],
  'a sender that is not verified': ['DATA', 554, 'Message rejected: Email address is not verified.'],
  'its content': ['DATA', 554, '5.7.1 Spam']
}

t.test('refusals of the mail server', async (t) => {
  let current: Reply | undefined
  const refusal = (command: Reply[0]) =>
    current?.[0] === command ? Object.assign(new Error(current[2]), { responseCode: current[1] }) : null
  const server = await startMailServer(t, {
    onRcptTo: (_address, _session, done) => done(refusal('RCPT TO')),
    onData: (stream, _session, done) => stream.resume().on('end', () => done(refusal('DATA')))
  })
  const { app, url, logged } = await setUp(t, server.settings)
  const refuse = async (next: Reply) => {
    current = next
    logged.length = 0
    await query(url, 'DELETE FROM mails')
    await queue(url)
    app.wakeMailSender()
    await until(() => logged.some(({ msg }) => /^mail (given up|not sent|sent)/.test(msg)))
  }

  let givenUp = 0
  for (const [title, reply] of Object.entries(PERMANENT)) {
    t.test(`a mail is given up after the refusal of ${title}`, async (t) => {
      await refuse(reply)
      t.match(logged, [{ msg: 'mail given up', failure: { command: reply[0], status: reply[1] } }])
      await until(async () => (await waiting(url)).length === 0)
      const count = `landfall_mails_given_up_total{kind="password_changed"} ${++givenUp}\n`
      t.ok((await app.metrics.metrics()).includes(count))
    })
  }
  for (const [title, reply] of Object.entries(TEMPORARY)) {
    t.test(`a mail is tried again after the refusal of ${title}`, async (t) => {
      await refuse(reply)
      t.match(logged, [{ msg: 'mail not sent; trying again in 15 seconds' }])
      const row = await until(async () =>
        (await waiting(url)).find(({ attempts, due }) => attempts === 1 && due < 20)
      )
      t.ok(row.due > 10, 'after 15 seconds')
    })
  }
})

t.test('a mail is given up when attempts have failed for a day, and arrives if the server is back before', async (t) => {
  let isAway = true
  const server = await startMailServer(t, {
    onConnect: (_session, done) =>
      done(isAway ? Object.assign(new Error('away'), { responseCode: 421 }) : null)
  })
  const { app, url, logged } = await setUp(t, server.settings)
  await queue(url, { recipient: 'old@example.com', age: '25 hours' })
  await queue(url, { recipient: 'new@example.com', age: '23 hours' })
  const [{ id }] = await query(url, "SELECT id FROM mails WHERE recipient LIKE 'old%'") as [{ id: string }]
  app.wakeMailSender()
  await until(async () =>
    (await waiting(url)).every(({ recipient, attempts, due }) =>
      recipient === 'new@example.com' && attempts === 1 && due < 20
    )
  )
  t.match(
    logged.filter(({ msg }) => msg === 'mail given up'),
    [{ level: 40, mail: id, kind: 'password_changed', attempts: 1, failure: { status: 421 } }]
  )
  t.match(await app.metrics.metrics(), /^landfall_mails_given_up_total\{kind="password_changed"\} 1$/m)
  isAway = false
  await query(url, 'UPDATE mails SET due_at = now()')
  app.wakeMailSender()
  await server.mailTo('new@example.com')
})

t.test('requests are answered, and claims on mails lapse after a minute, while the mail server hangs', async (t) => {
  let greetings = 0
  const smtp = await startBrokenServer(t, () => greetings++)
  const { app, url, settings } = await setUp(t, { SMTP_URL: smtp })
  const account = await signUp(app)
  await until(() => greetings === 1)
  t.equal((await app.inject({ url: '/auth/me', headers: account.headers })).statusCode, 200)
  const [row] = await waiting(url)
  t.match(row, { kind: 'email_confirmation', attempts: 1 })
  t.ok(row !== undefined && row.due > 0 && row.due <= 60, `due in ${row?.due} seconds`)
  const server = await startMailServer(t)
  await app.close() // interrupts the attempt
  await query(url, 'UPDATE mails SET due_at = now()')
  const next = await buildTestApp(t, { ...settings, ...server.settings })
  next.wakeMailSender()
  await server.mailTo(account.user.email)
})

t.test('a notice has the same Message-ID when the server drops the connection after the data', async (t) => {
  const ids: unknown[] = []
  const smtp = await startBrokenServer(t, (socket) => {
    socket.write('220 mail.test\r\n')
    let isData = false
    socket.on('data', (chunk) => {
      const text = chunk.toString()
      const id = /^Message-ID: (.*)$/im.exec(text)?.[1]
      if (id !== undefined) ids.push(id.trim())
      if (isData && text.endsWith('\r\n.\r\n')) return socket.destroy()
      if (isData) return
      isData = text === 'DATA\r\n'
      socket.write(isData ? '354 go on\r\n' : '250 ok\r\n')
    })
  })
  const { app, url } = await setUp(t, { SMTP_URL: smtp })
  await queue(url)
  for (let attempts = 1; attempts <= 2; attempts++) {
    app.wakeMailSender()
    await until(async () => (await waiting(url)).some((row) => row.attempts === attempts && row.due < 45))
    await query(url, 'UPDATE mails SET due_at = now()')
  }
  t.equal(ids.length, 2)
  t.equal(ids[0], ids[1])
})

t.test('a mail with an address of more than one meaning is given up', async (t) => {
  const before = server.mails.length
  const cases = [
    '"a@evil.test"@example.com',
    'a@example.com,b@evil.test',
    'a@b@example.com',
    'a@example.com>\r\nRCPT TO:<b@evil.test',
    'a(b@evil.test)@example.com',
    'Name <a@evil.test>',
    'a'
  ]
  for (const recipient of cases) {
    await queue(url, { recipient })
  }
  app.wakeMailSender()
  await until(async () => (await waiting(url)).length === 0)
  t.equal(server.mails.length, before)
})

t.test('an address in another script is sent as it is if the server can', async (t) => {
  await queue(url, { recipient: 'дом@пример.рф' })
  app.wakeMailSender()
  t.match(await server.mailTo('дом@пример.рф'), { headers: { to: 'дом@пример.рф' } })
})
