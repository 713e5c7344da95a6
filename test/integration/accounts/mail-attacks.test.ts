import { pino } from 'pino'
import t, { type Test } from 'tap'
import { requestLink } from '../../../src/modules/accounts/link-repository.ts'
import { buildTestApp, NOBODY, PASSWORD, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { createProxy } from '../../helpers/servers.ts'
import { openTransaction } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Attacks on mailed links. account-mails.test.ts has replays and two resets at once, mail-sender.test.ts
// mail servers that fail, and test/system/accounts link scanners and killed processes.

// The tests mostly wait for mails.
t.jobs = 4

const password = 'a brand-new staple'

async function setUp (t: Test, more: Record<string, string> = {}) {
  const mail = await startMailServer(t)
  const lines: string[] = []
  const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) })
  const settings = { ...await testSettings(t), ...mail.settings, ...more } as Record<string, string>
  const app = await buildTestApp(t, settings, logger)
  const ask = async (email: string, headers: Record<string, string> = {}) => {
    const startedAt = performance.now()
    const response = await sendAs(app, NOBODY, 'POST', '/auth/password_resets', { email }, headers)
    return { response, ms: performance.now() - startedAt }
  }
  const reset = async (token: string) => {
    const payload = { token, password, password_confirmation: password }
    return (await sendAs(app, NOBODY, 'PUT', '/auth/password_resets', payload)).statusCode
  }
  const confirm = async (token: string) =>
    (await sendAs(app, NOBODY, 'PUT', '/auth/email_confirmations', { token })).statusCode
  return { app, mail, lines, ask, reset, confirm, settings }
}

t.test('Host and X-Forwarded-Host tricks: links are made from BASE_URL alone', async (t) => {
  const { app, mail, ask } = await setUp(t, { TRUST_PROXY: '127.0.0.1' })
  const { user: { email } } = await signUp(app)
  await ask(email, {
    host: 'evil.test',
    'x-forwarded-host': 'evil.test',
    'x-forwarded-proto': 'gopher',
    forwarded: 'host=evil.test',
    origin: 'https://evil.test',
    referer: 'https://evil.test/'
  })
  await mail.linkTo(email, 2)
  for (const { text, headers } of mail.mails) {
    t.match(text, /^http:\/\/landfall\.test\/account\//m)
    t.notMatch(`${text}${JSON.stringify(headers)}`, /evil/)
  }
})

t.test('header injection in the address: nothing is sent to anybody', async (t) => {
  const { app, mail, ask } = await setUp(t)
  const { user: { email } } = await signUp(app)
  await mail.linkTo(email)
  const cases = [
    `${email}\r\nBcc: thief@evil.test`,
    `${email}\nTo: thief@evil.test`,
    `${email},thief@evil.test`,
    `thief@evil.test,${email}`,
    `${email}\u0000thief@evil.test`,
    `<${email}>,<thief@evil.test>`,
    `"${email}"@evil.test`,
    `${email}(@evil.test)`,
    email.replace('@', '@evil.test@'),
    `${email}%0d%0aBcc:thief@evil.test`
  ]
  for (const address of cases) {
    t.equal((await ask(address)).response.statusCode, 202, address)
  }
  t.equal(await app.database.mailLink.count({ where: { kind: 'password_reset' } }), 0)
  t.same(mail.mails.slice(1), [])
})

t.test('enumeration by response: every address gets the same', async (t) => {
  const { app, ask } = await setUp(t)
  const { user: { email } } = await signUp(app)
  const responses = []
  // The fourth and the fifth request for the known address are beyond the limit of mails.
  const others = [
    'nobody@example.com',
    'malformed',
    '',
    '\u0000',
    '\ud800',
    `${'x'.repeat(60_000)}@example.com`
  ]
  for (const address of [...Array(5).fill(email), ...others]) {
    const { statusCode, body, headers } = (await ask(address)).response
    responses.push(JSON.stringify({ statusCode, body, ...headers, date: '', 'x-request-id': '' }))
  }
  t.same([...new Set(responses)], [responses[0]])
  t.match(JSON.parse(responses[0] ?? ''), { statusCode: 202, body: '', 'cache-control': 'no-store' })
  const count = await app.database.mailLink.count({ where: { kind: 'password_reset' } })
  t.equal(count, 1, 'unknown ones leave no row')
})

t.test('enumeration by time: responses take 250 ms, or a multiple of that', async (t) => {
  const { DATABASE_URL } = await testSettings(t)
  const proxy = await createProxy(t, DATABASE_URL as string)
  const { app, ask } = await setUp(t, { DATABASE_URL: proxy.url })
  const { user: { email } } = await signUp(app)
  const times: Record<string, number[]> = { known: [], unknown: [], malformed: [] }
  for (let n = 0; n < 5; n++) {
    times.known?.push((await ask(email)).ms)
    times.unknown?.push((await ask(`nobody${n}@example.com`)).ms)
    times.malformed?.push((await ask('x')).ms)
  }
  for (const [name, all] of Object.entries(times)) t.ok(Math.min(...all) >= 245, `${name}: ${all}`)
  proxy.delay(300)
  for (const address of [email, 'nobody@example.com']) {
    const { ms } = await ask(address)
    t.ok(ms >= 495, `${address}: ${ms} ms with a slow database`)
  }
})

t.test('enumeration by parallel requests: none waits for another', async (t) => {
  const { app, mail, ask, settings } = await setUp(t)
  const { user: { email } } = await signUp(app)
  const { client, run } = await openTransaction(t, settings.DATABASE_URL as string)
  await requestLink({ run }, 'password_reset', email)
  const responses = await Promise.all(Array.from({ length: 30 }, async () => await ask(email)))
  for (const { response } of responses) t.equal(response.statusCode, 202)
  await client.query('COMMIT')
  app.wakeMailSender()
  await mail.mailTo(email, 2)
  await until(async () => await app.database.mail.count() === 0)
  t.equal(mail.mails.length, 2, 'the link that confirms the address, and one that resets the password')
})

t.test('enumeration by throttle: the limit of a client counts all addresses alike', async (t) => {
  const { app, ask, lines } = await setUp(t, { PASSWORD_RESETS_PER_ADDRESS: '4' })
  const { user: { email } } = await signUp(app)
  const statuses = []
  for (const address of [email, 'nobody@example.com', 'x', email, email, 'nobody@example.com', 'x']) {
    statuses.push((await ask(address)).response.statusCode)
  }
  t.same(statuses, [202, 202, 202, 202, 429, 429, 429])
  t.ok(lines.some((line) => /"limit_met".*"password_reset:address"/.test(line)))
})

t.test('enumeration by an outage: without PostgreSQL every address gets a 503', async (t) => {
  const settings = await testSettings(t)
  const proxy = await createProxy(t, settings.DATABASE_URL as string)
  const { app, ask } = await setUp(t, { ...settings, DATABASE_URL: proxy.url })
  const { user: { email } } = await signUp(app)
  await proxy.refuse()
  for (const address of [email, 'nobody@example.com', 'x']) {
    const { response, ms } = await ask(address)
    t.equal(response.statusCode, 503, address)
    t.ok(ms >= 245)
  }
  await proxy.restore()
})

t.test('no log line has a token, an address or a password', async (t) => {
  let refuses = true
  const mail = await startMailServer(t, {
    onRcptTo ({ address }, _session, done) {
      done(refuses ? Object.assign(new Error(`<${address}> is greylisted`), { responseCode: 450 }) : null)
    },
    disabledCommands: ['STARTTLS'],
    onAuth: (_auth, _session, done) => done(null, { user: 'u' })
  })
  const { app, ask, reset, confirm, lines } = await setUp(t, {
    SMTP_URL: mail.url.replace('//', '//user:the-smtp-password@')
  })
  const { user: { email } } = await signUp(app, 'who-is-this@example.com')
  await ask(email)
  await ask('nobody-known@example.com')
  await until(() => lines.filter((line) => line.includes('mail not sent')).length === 2)
  refuses = false
  await app.database.$executeRaw`UPDATE mails SET due_at = now()`
  app.wakeMailSender()
  const tokens = [await mail.linkTo(email, 1), await mail.linkTo(email, 2)]
  for (const token of tokens) {
    await reset(token)
    await confirm(token)
  }
  const log = lines.join('')
  for (const secret of [...tokens, email, 'nobody-known', PASSWORD, password, 'the-smtp-password']) {
    t.notOk(log.includes(secret), secret)
  }
  for (const event of ['password_reset_requested', 'password_reset"', 'mail sent']) {
    t.ok(log.includes(event), event)
  }
})
