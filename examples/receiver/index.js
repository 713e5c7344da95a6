import { createReceiver } from './receiver.js'

const { WEBHOOK_SECRET = '', PORT = '4000' } = process.env
const secrets = WEBHOOK_SECRET.split(' ')

if (!secrets.every((secret) => /^whsec_[A-Za-z0-9+/]{43}=$/.test(secret))) {
  console.error('Set WEBHOOK_SECRET to the secret of the webhook, which begins with whsec_')
  process.exit(1)
}

const receiver = createReceiver(secrets, ({ type, data: { page, version } }) => {
  console.log(page === undefined ? type : `${type} ${page.public_id}, version ${version}`)
})
receiver.listen(PORT, '127.0.0.1', () => console.log(`Listening on port ${PORT}`))
