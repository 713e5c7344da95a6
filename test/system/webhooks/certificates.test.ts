import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { provide } from '../../shared/programs.ts'

// Receivers with certificates of an authority of the operator's own (NODE_EXTRA_CA_CERTS), and with others.

const openssl = provide('openssl')
const folder = temporaryFolder(t)
const run = (command: string) =>
  execFileSync(openssl, command.trim().split(/\s+/), { cwd: folder, stdio: 'ignore' })
const KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'

for (const authority of ['own', 'foreign']) {
  run(`req -x509 ${KEY} -subj /CN=${authority} -keyout ${authority}.key -out ${authority}.pem`)
}

/** Returns a key, and its certificate that an authority has signed. */
function createCertificate (authority: string, host: string, days: number) {
  run(`
    req ${KEY} -subj /CN=receiver -addext subjectAltName=DNS:${host}
      -keyout key.pem -out request.pem`)
  run(`
    x509 -req -in request.pem -CA ${authority}.pem -CAkey ${authority}.key -CAcreateserial
      -copy_extensions copy -days ${days} -out certificate.pem`)
  const read = (name: string) => readFileSync(join(folder, name))
  return { key: read('key.pem'), cert: read('certificate.pem') }
}

const { url } = await startService(t, {
  ...await testSettings(t),
  ...RECEIVABLE,
  NODE_EXTRA_CA_CERTS: join(folder, 'own.pem')
})
const owner = await Owner.signUp(url)

for (
  const [name, authority, host, days, outcome] of [
    ['of the authority in NODE_EXTRA_CA_CERTS', 'own', 'localhost', 2, { state: 'delivered', error: null }],
    ['of another authority', 'foreign', 'localhost', 2, {
      state: 'failed',
      error: 'Connection failed: certificate is not signed by a trusted authority'
    }],
    ['that has expired', 'own', 'localhost', -1, {
      state: 'failed',
      error: 'Connection failed: certificate has expired'
    }],
    ['for another host', 'own', 'example.com', 2, {
      state: 'failed',
      error: 'Connection failed: certificate is for another host name'
    }]
  ] as const
) {
  t.test(`a certificate ${name}: ${outcome.state}`, async (t) => {
    const receiver = await startReceiver(t, () => 204, createCertificate(authority, host, days))
    const { text } = await owner.call('POST', `${url}/webhooks`, { json: { url: receiver.url } })
    const { id } = JSON.parse(text) as { id: string }
    await owner.call('POST', `${url}/webhooks/${id}/test`)
    const delivery = await until(async () => {
      const [newest] = (await owner.call('GET', `${url}/webhooks/${id}/deliveries`)).json()
      return ['delivered', 'failed'].includes(newest?.state) ? newest : undefined
    })
    t.match(delivery, outcome)
    t.equal(receiver.messages.length, outcome.state === 'delivered' ? 1 : 0)
  })
}
