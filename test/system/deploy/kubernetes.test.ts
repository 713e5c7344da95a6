import type { Deployment } from 'kubernetes-types/apps/v1.js'
import type { Job } from 'kubernetes-types/batch/v1.js'
import type { Container, ContainerPort, PodSpec, Service } from 'kubernetes-types/core/v1.js'
import type { Ingress, NetworkPolicy } from 'kubernetes-types/networking/v1.js'
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { parseAllDocuments } from 'yaml'
import { loadConfig } from '../../../src/config.ts'
import { JWT_SECRET } from '../../helpers/app.ts'
import { call } from '../../helpers/client.ts'
import { claimRedis, createDatabase, freePort } from '../../helpers/servers.ts'
import { PROJECT, runService, SERVE, startService, temporaryFolder } from '../../helpers/service.ts'

// Checks deploy/kubernetes without a cluster: against types that are generated from the API of Kubernetes,
// and by running the service with the settings and the secrets of the manifests.

const read = (name: string): unknown[] =>
  parseAllDocuments(readFileSync(join(PROJECT, 'deploy/kubernetes', name), 'utf8'), { version: '1.1' })
    .map((document) => {
      if (document.errors[0] !== undefined) throw document.errors[0]
      return document.toJS()
    })
const [job] = read('migrate.yaml') as [Job]
const manifests = read('landfall.yaml') as Manifest[]
const [deployment, service, policy, ingress, budget] = manifests as unknown as [
  Deployment,
  Service,
  NetworkPolicy,
  Ingress,
  PodDisruptionBudget
]

const podOf = (manifest: Deployment | Job): PodSpec => manifest.spec!.template.spec!
const [migrate, landfall] = [job, deployment].map((one) => podOf(one).containers[0]) as [Container, Container]
const portsOf = landfall.ports as ContainerPort[]

const settingOf = (name: string): string => landfall.env?.find((each) => each.name === name)?.value ?? ''

/** Of every kind. */
interface Manifest {
  readonly apiVersion: string
  readonly kind: string
}

/** Returns what TypeScript says about values of types of kubernetes-types; it also reports unknown fields. */
function typeErrors (manifests: readonly Manifest[]): string[] {
  const lines = manifests.map((manifest, n) => {
    const path = manifest.apiVersion === 'v1' ? 'core/v1' : manifest.apiVersion.replace('.k8s.io', '')
    return `export const value${n}: import('kubernetes-types/${path}').${manifest.kind} = ${
      JSON.stringify(manifest)
    }`
  })
  const file = join(PROJECT, 'manifests.ts')
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    types: [],
    module: ts.ModuleKind.Preserve,
    moduleResolution: ts.ModuleResolutionKind.Bundler
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, lines.join('\n'), ts.ScriptTarget.Latest)
      : getSourceFile(name, ...rest)
  return ts.getPreEmitDiagnostics(ts.createProgram([file], options, host)).map(({ messageText }) =>
    ts.flattenDiagnosticMessageText(messageText, '\n')
  )
}

t.test('the manifests have the fields and types of the Kubernetes API', (t) => {
  t.same(manifests.map(({ kind }) => kind), [
    ...'Deployment Service NetworkPolicy Ingress PodDisruptionBudget PersistentVolumeClaim'.split(' ')
  ])
  const wrong = [
    { ...policy, spec: { ...policy.spec, ports: 1 } },
    { ...deployment, spec: { ...deployment.spec, replica: 2 } }
  ]
  const errors = typeErrors([job, ...manifests, ...wrong] as Manifest[])
  t.equal(errors.length, wrong.length)
  t.match(errors, [/ports/, /replica/])
  t.end()
})

t.test('the manifests fit each other', (t) => {
  const { labels } = deployment.spec!.template.metadata!
  for (const { spec } of [deployment, policy, budget]) {
    const { matchLabels } = (spec && 'podSelector' in spec ? spec.podSelector : spec?.selector) ?? {}
    t.same(matchLabels, labels)
  }
  t.same(service.spec?.selector, labels)
  const [port] = service.spec?.ports ?? []
  t.equal(port?.targetPort, portsOf[0]?.name)
  for (const [container, manifest] of [[migrate, job], [landfall, deployment]] as const) {
    t.same(
      container.volumeMounts?.map(({ name }) => name).sort(),
      podOf(manifest).volumes?.map(({ name }) => name).sort()
    )
    t.match(container.image, /@sha256:[0-9a-f]{64}$/)
  }
  t.equal(migrate.image, landfall.image)

  const { tls = [], rules = [] } = ingress.spec!
  const { host } = new URL(settingOf('BASE_URL'))
  t.same([tls.flatMap(({ hosts }) => hosts), rules.map((rule) => rule.host)], [[host], [host]])
  t.same(rules.flatMap(({ http }) => http?.paths.map(({ backend }) => backend.service)), [
    { name: service.metadata?.name, port: { name: port?.name } }
  ])
  t.end()
})

t.test('each port is open to chosen pods of one other namespace', (t) => {
  const { policyTypes, ingress = [] } = policy.spec!
  t.same(policyTypes, ['Ingress'])
  t.same(ingress.map(({ ports }) => ports?.map(({ port }) => port)), portsOf.map(({ name }) => [name]))
  for (const { from = [] } of ingress) {
    t.equal(from.length, 1)
    for (const selector of [from[0]?.namespaceSelector, from[0]?.podSelector]) {
      t.ok(Object.keys(selector?.matchLabels ?? {}).length > 0)
    }
  }
  t.end()
})

t.test('few addresses are trusted, not those of all pods', (t) => {
  const { TRUST_PROXY: [trusted = ''] } = loadConfig({ TRUST_PROXY: settingOf('TRUST_PROXY') })
  t.ok(Number(trusted.split('/')[1]) >= 24, trusted)
  t.end()
})

t.test('the service runs with the settings, secrets and probes of the manifests', async (t) => {
  const folder = temporaryFolder(t)
  const secrets: Record<string, string> = {
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET
  }
  for (const [name, value] of Object.entries(secrets)) writeFileSync(join(folder, name), value)
  const ports = Object
    .fromEntries(await Promise
      .all(portsOf.map(async ({ containerPort }) => [String(containerPort), String(await freePort())])))
  const mountOf = (volume: string) =>
    landfall.volumeMounts?.find(({ name }) => name === volume)?.mountPath ?? ''
  const settingsOf = ({ env = [] }: Container): Record<string, string> =>
    Object.fromEntries(env.map(({ name, value = '' }) => [
      name,
      ports[value] ?? value.replace(mountOf('secrets'), folder).replace('/app/', `${folder}/`)
    ]))
  const [program, script] = SERVE

  const { code, output } = await runService(t, settingsOf(migrate), [program, script, ...migrate.args ?? []])
  t.equal(code, 0, output)
  const settings = settingsOf(landfall)
  const { end } = await startService(t, settings)
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const) {
    const { path, port } = landfall[probe]!.httpGet!
    const listening = portsOf.find(({ name }) => name === port)?.containerPort
    t.equal((await call('GET', `http://127.0.0.1:${ports[String(listening)]}${path}`)).status, 200, probe)
  }
  t.equal(landfall.startupProbe?.httpGet?.path, '/health/ready')
  t.ok(
    settingOf('UPLOADS_DIR').startsWith(`${mountOf('uploads')}/`),
    'not the volume itself, whose mode depends on its driver'
  )
  t.equal(statSync(settings.UPLOADS_DIR as string).mode & 0o777, 0o700)
  t.equal((await call('GET', `http://127.0.0.1:${settings.OPS_PORT}/metrics`)).status, 200)
  t.ok(
    podOf(deployment).terminationGracePeriodSeconds! * 1000 > Number(settings.SHUTDOWN_TIMEOUT_MS),
    'Kubernetes waits longer than the shutdown can take'
  )
  t.equal(await end('SIGTERM'), 0)
})
