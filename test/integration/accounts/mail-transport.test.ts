import t, { type Test } from 'tap'
import type { SMTPServerOptions } from 'smtp-server'
import { createTransport } from '../../../src/modules/accounts/mail/transport.ts'
import { startMailServer } from '../../helpers/mail-server.ts'

// How SMTP_URL is used. 0.0.0.0 stands for another machine; it leads to this one.

const MAIL = { messageId: 'a@landfall.test', recipient: 'you@example.com', subject: 's', text: 't' }

async function send (t: Test, options: SMTPServerOptions, edit: (url: string) => string): Promise<unknown> {
  const server = await startMailServer(t, {
    onAuth ({ username, password }, _session, done) {
      done(password === 'p@ss:w/rd' ? null : new Error('wrong'), { user: username as string })
    },
    ...options
  })
  const sendMail = createTransport({
    SMTP_URL: edit(server.url),
    MAIL_FROM: 'Landfall <noreply@landfall.test>'
  })
  return await sendMail(MAIL, AbortSignal.timeout(20_000)).then(
    () => server.mails[0],
    (error: Error) => error.message
  )
}

const otherHost = (url: string) => url.replace('127.0.0.1', '0.0.0.0')
const withUser = (url: string) => url.replace('//', '//us%65r:p%40ss%3Aw%2Frd@')

t.test('the user and the password of SMTP_URL are decoded', async (t) => {
  t.match(await send(t, { disabledCommands: ['STARTTLS'] }, withUser), { user: 'user', secure: false })
})

t.test('a password is not sent to another host without TLS', async (t) => {
  let logins = 0
  const options: SMTPServerOptions = {
    disabledCommands: ['STARTTLS'],
    onAuth (_auth, _session, done) {
      logins++
      done(null, { user: 'u' })
    }
  }
  t.match(await send(t, options, (url) => withUser(otherHost(url))), /STARTTLS/)
  t.equal(logins, 0)
})

t.test('a password is not sent to another host whose certificate is invalid', async (t) => {
  t.match(await send(t, { disabledCommands: [] }, (url) => withUser(otherHost(url))), /certificate/)
})

t.test('smtps:// checks the certificate of another host', async (t) => {
  t.match(await send(t, { secure: true }, otherHost), /certificate/)
})

t.test('smtp:// without a password takes offered TLS with any certificate', async (t) => {
  t.match(await send(t, { disabledCommands: ['AUTH'] }, otherHost), { secure: true })
  t.match(await send(t, {}, otherHost), { secure: false })
})

t.test('a server on this machine may have any certificate', async (t) => {
  t.match(await send(t, { disabledCommands: [] }, withUser), { user: 'user', secure: true })
  t.match(
    await send(t, { secure: true, disabledCommands: [] }, (url) => url.replace('127.0.0.1', 'localhost')),
    { secure: true }
  )
})
