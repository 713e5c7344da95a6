import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { provide } from '../../shared/programs.ts'
import { freePort } from '../../helpers/servers.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { createCertificate } from './certificate.ts'

// Runs the commands of docs/operations.md for nginx without Docker, with folders and ports of the test.

const nginx = provide('nginx')
const envsubst = provide('envsubst')

t.test('nginx accepts the configuration that the commands of docs/operations.md make, with HTTPS', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'tls'))
  createCertificate(provide('openssl'), join(folder, 'tls'))

  const section = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')
    .split(/^## Load balancing$/m)[1] as string
  const [, block = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(section) ?? []
  const changes: Array<[string, string]> = [
    ['NGINX_PORT=80 ', `NGINX_PORT=${await freePort()} `],
    ['NGINX_TLS_PORT=443 ', `NGINX_TLS_PORT=${await freePort()} `],
    ['/run/landfall-nginx', join(folder, 'run')],
    ['/var/log/nginx/landfall.log', join(folder, 'landfall.log')],
    ['/etc/landfall/tls', join(folder, 'tls')],
    ['\nnginx -c ', `\n'${nginx}' -t -c `]
  ]
  const commands = changes.reduce((text, [from, to]) => {
    t.ok(text.includes(from), from)
    return text.replace(from, to)
  }, block)
  const env = { PATH: [dirname(envsubst), process.env.PATH].join(delimiter) }
  // Standard output is a socket here, as under systemd.
  const { stderr } = await promisify(execFile)('bash', ['-eu', '-c', commands], { cwd: PROJECT, env })
  t.match(stderr, /test is successful/)
  const made = readFileSync(join(folder, 'run/nginx.conf'), 'utf8') +
    readFileSync(join(folder, 'run/server.d/tls.conf'), 'utf8')
  t.notMatch(made.replace(/^#.*$/gm, ''), /\$\{/, 'every variable has a value')
})
