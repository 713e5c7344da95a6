import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { query } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

t.test('a process that is killed while it sends loses no mail', async (t) => {
  let isSending = false
  // The first mail server never answers after the data.
  const hanging = await startMailServer(t, {
    onData (stream) {
      stream.resume().on('end', () => {
        isSending = true
      })
    }
  })
  const settings: Record<string, string> = {
    ...await testSettings(t),
    BASE_URL: 'http://landfall.test',
    LOG_LEVEL: 'info'
  }
  const database = settings.DATABASE_URL as string
  const first = await startService(t, { ...settings, ...hanging.settings })
  const { email } = await Owner.signUp(first.url)
  await until(() => isSending)
  await first.end('SIGKILL')
  const rows = await query(database, 'SELECT kind, due_at > now() AS claimed FROM mails')
  t.match(rows, [{ kind: 'email_confirmation', claimed: true }])

  await query(database, 'UPDATE mails SET due_at = now()') // a minute later
  const server = await startMailServer(t)
  const second = await startService(t, { ...settings, ...server.settings })
  const token = await server.linkTo(email)
  const confirmed = await fetch(`${second.url}/auth/email_confirmations`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token })
  })
  t.equal(confirmed.status, 204)
})
