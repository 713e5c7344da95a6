import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ConfigError, loadConfig } from '../../../src/config.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { substitute, TEMPLATES } from '../../shared/balancer.ts'

// Checks docker-compose.yml without Docker. nginx.test.ts runs the nginx configuration, and image.soak.ts
// runs the service from the files of the image.

const read = (name: string): string => readFileSync(join(PROJECT, name), 'utf8')
/** Substitutes variables as Docker Compose does. */
const fill = (text: string, env: Record<string, string>): string =>
  text.replace(
    /\$\{(\w+)(?::([-?])([^}]*))?\}/g,
    (_whole, name: string, kind?: string, rest = '') =>
      env[name] ?? (kind === '-' ? rest as string : `<${name}>`)
  )

const composed = (name: string, env: Record<string, string>) =>
  parse(fill(read(name), env), { merge: true, logLevel: 'error' })
const compose = composed('docker-compose.yml', { JWT_SECRET: 'x'.repeat(64) })
/** The format is that of Docker Compose. */
const services: Record<string, any> = compose.services
const service = (name: string) => services[name]
const replicas = Object.keys(services).filter((name) => /^landfall-\d$/.test(name))

t.test('the stages of the image begin with the same Node, which has a digest', (t) => {
  const [build, run, ...others] = read('Dockerfile').match(/^FROM \S+/gm) ?? []
  t.match(build, /^FROM node:[\d.]+-slim@sha256:[0-9a-f]{64}$/)
  t.same([run, others], [build, []])
  t.end()
})

t.test('every Compose service has resource limits, a health check and no privileges', async (t) => {
  t.same(Object.keys(services).sort(), ['landfall-1', 'landfall-2', 'migrate', 'nginx', 'postgres', 'redis'])
  for (const [name, it] of Object.entries(services)) {
    t.ok(it.read_only, `${name} can write only to its mounts`)
    t.same(it.cap_drop, ['ALL'], name)
    t.same(it.security_opt, ['no-new-privileges:true'], name)
    t.match(
      it.logging?.options,
      { 'max-size': /m$/, 'max-file': /^\d+$/ },
      `the log of ${name} has a maximum size`
    )
    t.match(it.deploy?.resources.limits, { memory: /[MG]$/, cpus: /^\d/ }, name)
    t.ok(
      it.build !== undefined || /^[a-z]+:\d+(\.\d+)+@sha256:[0-9a-f]{64}$/.test(it.image),
      `${name} has an image with a version and a digest`
    )
    t.equal(it.restart, name === 'migrate' ? 'no' : 'unless-stopped')
    t.ok(
      name === 'migrate' ? it.healthcheck?.disable : it.healthcheck?.test?.length > 1,
      `the health check of ${name}`
    )
    for (const network of Array.isArray(it.networks) ? it.networks : Object.keys(it.networks ?? {})) {
      t.ok(network in compose.networks)
    }
    for (const volume of it.volumes ?? []) {
      const [source = ''] = volume.split(':')
      t.ok(source.startsWith('./') ? existsSync(join(PROJECT, source)) : source in compose.volumes, volume)
    }
    for (const other of Object.keys(it.depends_on ?? {})) {
      t.ok(other in services, `${name} waits for ${other}`)
    }
    t.equal(it.ports !== undefined, name === 'nginx', 'only nginx publishes ports')
  }
  t.equal(compose.networks.back?.internal, true)
  t.match(
    service('postgres').healthcheck?.test?.join(' '),
    / -h 127\.0\.0\.1 /,
    'TCP, because the image runs a temporary server on the socket during its setup'
  )
})

t.test('the replicas have only known and valid settings', async (t) => {
  const known =
    new Set(read('.env.example').match(/^# ([A-Z][A-Z0-9_]+)=/gm)?.map((line) => line.slice(2, -1)))
  for (const name of [...replicas, 'migrate']) {
    const environment = service(name).environment ?? {}
    for (const setting of Object.keys(environment)) t.ok(known.has(setting), setting)
    const config =
      loadConfig(Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, String(value)])))
    t.equal(config.MIGRATE_ON_START, false, 'the service "migrate" applies the migrations')
    const graceMs = Number(/^(\d+)s$/.exec(service(name).stop_grace_period ?? '')?.[1]) * 1000
    t.ok(graceMs > config.SHUTDOWN_TIMEOUT_MS, 'Docker waits longer than the shutdown can take')
  }
  t.same(service('migrate').command, ['migrate'])
  for (const name of replicas) {
    t.equal(service(name).depends_on?.migrate?.condition, 'service_completed_successfully')
  }
  t.throws(
    () => loadConfig({ DATABASE_URL: 'postgresql://x', JWT_SECRET: '' }),
    ConfigError,
    'JWT_SECRET is required'
  )
})

t.test('the backup commands name services and folders that exist', async (t) => {
  const commands = [
    ...read('docs/backup.md')
      .matchAll(/docker compose (?:exec -T|run --rm -T --no-deps --entrypoint tar) (\S+) [^|\n]*/g)
  ]
  t.ok(commands.length > 5)
  for (const [command, name = ''] of commands) {
    t.ok(name in services, command)
    const { environment = {}, volumes } = service(name)
    const [, folder] = / -C (\/\S+) /.exec(command) ?? []
    if (folder !== undefined) {
      t.same([environment.UPLOADS_DIR, volumes], [folder, [`uploads:${folder}`]], command)
    }
    if (name === 'postgres') t.match(environment, { POSTGRES_USER: 'landfall', POSTGRES_DB: 'landfall' })
  }
})

t.test('nobody can list the uploads in a new volume, and nginx can open them', (t) => {
  const [, commands = ''] = /^RUN (mkdir .*) && chown node:node data uploads$/m.exec(read('Dockerfile')) ?? []
  const folder = temporaryFolder(t)
  execFileSync('sh', ['-euc', `umask 022; ${commands}`], { cwd: folder })
  const modeOf = (name: string) => statSync(join(folder, name)).mode & 0o777
  t.same([modeOf('data'), modeOf('uploads')], [0o700, 0o711])
  t.end()
})

t.test('nginx has the tested configuration and reaches the replicas and their files', async (t) => {
  const { environment = {}, volumes = [], command, networks } = service('nginx')
  const variables = Object
    .fromEntries(Object.entries(environment).map(([name, value]) => [name, String(value)]))
  t.ok(volumes.includes('./deploy/nginx/nginx.conf.template:/etc/nginx/templates/nginx.conf.template:ro'))
  const script = './deploy/nginx/settings.envsh'
  t.ok(volumes.includes(`${script}:/docker-entrypoint.d/05-settings.envsh:ro`), 'sourced before envsubst')
  t.ok(statSync(join(PROJECT, script)).mode & 0o001, 'the entry point ignores files that are not executable')
  t.same(command?.slice(0, 3), ['nginx', '-c', `${variables.NGINX_ENVSUBST_OUTPUT_DIR}/nginx.conf`])
  t.notMatch(
    substitute(
      readFileSync(join(TEMPLATES, 'nginx.conf.template'), 'utf8').replace(/^#.*$/gm, ''),
      { ...variables, NGINX_IPV6: '[::]' }
    ),
    /\$\{/,
    'every variable is set'
  )

  for (const [index, name] of replicas.entries()) {
    t.equal(
      variables[`REPLICA_${index + 1}`],
      `${service(name).networks.front.ipv4_address}:${service(name).environment.PORT}`
    )
    t.equal(service(name).environment.TRUST_PROXY, networks.front.ipv4_address, 'they trust only nginx')
    t.equal(service(name).environment.BASE_URL, variables.BASE_URL)
    t.ok(service(name).volumes.includes(`uploads:${service(name).environment.UPLOADS_DIR}`))
  }
  t.ok(volumes.includes(`uploads:${variables.UPLOADS_DIR}:ro`))
  t.match(service('nginx').ports, [`3000:${variables.NGINX_PORT}`])
  t.equal(new URL(variables.BASE_URL as string).port, '3000')
})

t.test('docker-compose.ipv6.yml adds an IPv6 subnet and keeps the IPv4 one', (t) => {
  const { front } = composed('deploy/docker-compose.ipv6.yml', {}).networks
  const subnetsOf = ({ ipam }: any): string[] => ipam.config.map(({ subnet }: any) => subnet)
  t.same(subnetsOf(front).slice(0, 1), subnetsOf(compose.networks.front))
  t.match(subnetsOf(front)[1], /^fd[^]*::\/64$/)
  t.equal(front.enable_ipv6, true)
  t.end()
})

t.test('docker-compose.tls.yml and the TLS template of nginx agree', async (t) => {
  const { nginx } = composed('deploy/docker-compose.tls.yml', { TLS_DIR: '/etc/landfall/tls' }).services
  const variables = { ...service('nginx').environment, ...nginx.environment, NGINX_IPV6: '[::]' }
  const template = readFileSync(join(TEMPLATES, 'server.d/tls.conf.template'), 'utf8')
  t.notMatch(substitute(template, variables), /\$\{/)
  for (const volume of nginx.volumes ?? []) {
    if (volume.startsWith('./')) t.ok(existsSync(join(PROJECT, volume.split(':')[0] as string)), volume)
  }
  t.ok(nginx.volumes.some((volume: string) => volume.includes(`:${variables.NGINX_TLS_DIR}:`)))
  const [, files = ''] = /^COMPOSE_FILE=(.*)$/m.exec(read('docs/operations.md')) ?? []
  t.same(
    files.split(':'),
    ['docker-compose.yml', 'deploy/docker-compose.tls.yml'],
    'docs/operations.md names both files'
  )
  t.same(nginx.ports, [`80:${variables.NGINX_PORT}`, `443:${variables.NGINX_TLS_PORT}`])
})
