import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { RECEIVABLE } from '../../helpers/receiver.ts'
import { freePort } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { Example } from './example.ts'

t.test('the receiver of examples/ tells each change once, and nothing that is forged or older', async (t) => {
  const { url } = await startServiceOnPostgres(t, RECEIVABLE)
  const example = await Example.install(t, 'receiver')
  t.match(example.commands, [
    `WEBHOOK_NETWORKS=${RECEIVABLE.WEBHOOK_NETWORKS} npm start\n`,
    /"url": "http:\/\/127\.0\.0\.1:4000\/"/,
    /^npm ci\nWEBHOOK_SECRET=\$\(.*\.secret'\) npm start\n$/
  ])

  const owner = await Owner.signUp(url)
  const PORT = String(await freePort())
  const receiver = `http://127.0.0.1:${PORT}/`
  const { text } = await owner.call('POST', `${url}/webhooks`, { json: { url: receiver } })
  const { secret } = JSON.parse(text) as { secret: string }
  await t.rejects(
    example.start(['npm', 'start'], { PORT, WEBHOOK_SECRET: secret.slice(1) }, /Listening/),
    { message: /ended with 1:[^]*Set WEBHOOK_SECRET/ }
  )
  const { output } = await example.start(['npm', 'start'], { PORT, WEBHOOK_SECRET: secret }, /Listening/)
  const { public_id: publicId } = await owner.createPage(url, '{}')
  const line = `page.published ${publicId}, version 1\n`
  await until(() => output().endsWith(line), 'the message of the service')

  const send = async (id: string, version: number, signature = new Webhook(secret)): Promise<number> => {
    const now = new Date()
    const body = JSON.stringify({
      type: 'page.published',
      data: { page: { id: '1', public_id: 'p' }, version }
    })
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': signature.sign(id, now, body)
    }
    return (await fetch(receiver, { method: 'POST', headers, body })).status
  }
  t.equal(await send('a', 2), 204)
  t.equal(await send('a', 2), 204, 'again')
  t.equal(await send('b', 1), 204, 'an older version')
  t.equal(await send('c', 3, new Webhook(`whsec_${Buffer.alloc(32).toString('base64')}`)), 400, 'forged')
  t.equal((await fetch(receiver, { method: 'POST', body: 'x'.repeat(20_000) })).status, 413)
  t.equal(await send('d', 4), 204)
  await until(() => output().endsWith('version 4\n'))
  const refusal = 'The signature does not belong to this message and secret\n'
  t.ok(output().includes(refusal))
  const messages = output().replace(refusal, '')
  t.ok(messages.endsWith(`${line}page.published p, version 2\npage.published p, version 4\n`), output())
})
