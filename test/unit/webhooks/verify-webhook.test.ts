import t from 'tap'
import { Webhook } from 'standardwebhooks'
import { verifyWebhook, WebhookVerificationError } from '@landfall/client'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 8).toString('base64')}`
const BODY = '{"type":"page.published","data":{"author":{"name":"Zoë"}}}'

/** Signs with another implementation. */
function headersOf (body: string, secrets = [SECRET], at = new Date()): Record<string, string> {
  return {
    'webhook-id': 'message',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign('message', at, body)).join(' ')
  }
}

t.test('a message with the right signature is returned, whatever holds headers and body', async (t) => {
  const headers = headersOf(BODY)
  for (const given of [headers, new Headers(headers)]) {
    for (const body of [BODY, Buffer.from(BODY), new TextEncoder().encode(BODY)]) {
      t.same(await verifyWebhook(body, given, SECRET), JSON.parse(BODY))
    }
  }
})

t.test('one of several signatures and one of several secrets are enough', async (t) => {
  t.ok(await verifyWebhook(BODY, headersOf(BODY, [OTHER, SECRET]), SECRET))
  t.ok(await verifyWebhook(BODY, headersOf(BODY, [OTHER]), [SECRET, OTHER]))
  const asymmetric = headersOf(BODY)
  asymmetric['webhook-signature'] = `v1a,x ${asymmetric['webhook-signature']}`
  t.ok(await verifyWebhook(BODY, asymmetric, SECRET))
})

t.test('everything else is refused', async (t) => {
  const headers = headersOf(BODY)
  const minutes = (count: number) => headersOf(BODY, [SECRET], new Date(Date.now() + count * 60_000))
  const cases: Record<string, [body: string, headers: Record<string, string>, secret: string]> = {
    'another secret': [BODY, headers, OTHER],
    'another body': [`${BODY} `, headers, SECRET],
    'a byte order mark': [`\uFEFF${BODY}`, headers, SECRET],
    'another id': [BODY, { ...headers, 'webhook-id': 'other' }, SECRET],
    'an old message': [BODY, minutes(-6), SECRET],
    'a message of the future': [BODY, minutes(6), SECRET],
    'another time': [
      BODY,
      { ...headers, 'webhook-timestamp': String(Math.floor(Date.now() / 1000) - 60) },
      SECRET
    ],
    'no number': [BODY, { ...headers, 'webhook-timestamp': 'now' }, SECRET],
    'no signature': [BODY, { ...headers, 'webhook-signature': '' }, SECRET],
    'a short signature': [BODY, { ...headers, 'webhook-signature': 'v1,AAAA v1,%' }, SECRET],
    'too many signatures': [BODY, headersOf(BODY, [...Array<string>(10).fill(OTHER), SECRET]), SECRET],
    'no headers': [BODY, {}, SECRET]
  }
  for (const [name, [body, given, secret]] of Object.entries(cases)) {
    await t.rejects(verifyWebhook(body, given, secret), WebhookVerificationError, name)
  }
  for (const secret of ['', 'whsec_', 'lf_key', `${SECRET} `]) {
    await t.rejects(verifyWebhook(BODY, headers, secret), TypeError, 'a mistake of the program')
  }
})
