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

interface Probe {
  readonly httpGet: { readonly path: string, readonly port: string }
}

interface Container {
  readonly image: string
  readonly args?: string[]
  readonly env: Array<{ name: string, value: string }>
  readonly ports: Array<{ name: string, containerPort: number }>
  readonly volumeMounts: Array<{ name: string, mountPath: string }>
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
}

interface Selector {
  readonly matchLabels: Record<string, string>
}

interface NetworkPolicy {
  readonly spec: {
    readonly podSelector: Selector
    readonly policyTypes: string[]
    readonly ingress: Array<{
      readonly ports: Array<{ port: string }>
      readonly from: Array<{ namespaceSelector: Selector, podSelector: Selector }>
    }>
  }
}

interface Ingress {
  readonly spec: {
    readonly tls: Array<{ hosts: string[] }>
    readonly rules: Array<{
      readonly host: string
      readonly http: { paths: Array<{ backend: { service: { name: string, port: { name: string } } } }> }
    }>
  }
}

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly selector: Record<string, unknown>
    readonly ports: Array<{ name: string, targetPort: string }>
    readonly template: {
      readonly metadata: { labels: Record<string, string> }
      readonly spec: {
        terminationGracePeriodSeconds: number
        volumes: Array<{ name: string }>
        containers: Container[]
      }
    }
  }
}

const read = (name: string): Manifest[] =>
  parseAllDocuments(readFileSync(join(PROJECT, 'deploy/kubernetes', name), 'utf8'), { version: '1.1' }).map((
    document
  ) => {
    if (document.errors[0] !== undefined) throw document.errors[0]
    return document.toJS() as Manifest
  })
const [job] = read('migrate.yaml') as [Manifest]
const manifests = read('landfall.yaml')
const [deployment, service, policy, ingress, budget] = manifests as unknown as [
  Manifest,
  Manifest,
  NetworkPolicy,
  Ingress,
  Manifest
]
const [migrate, landfall] = [job, deployment].map(({ spec }) => spec.template.spec.containers[0]) as [
  Container,
  Container
]

const settingOf = (name: string): string => landfall.env.find((each) => each.name === name)?.value ?? ''

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
  t.same(typeErrors([job, ...manifests]), [])
  t.match(typeErrors([{ ...manifests[2], spec: { ...policy.spec, ports: 1 } } as never]), [/ports/])
  t.match(typeErrors([{ ...deployment, spec: { ...deployment.spec, replica: 2 } } as never]), [/replica/])
  t.end()
})

t.test('the manifests fit each other', (t) => {
  const { labels } = deployment.spec.template.metadata
  for (const selector of [deployment.spec.selector, policy.spec.podSelector, budget.spec.selector]) {
    t.same(selector.matchLabels, labels)
  }
  t.same(service.spec.selector, labels)
  t.equal(service.spec.ports[0]?.targetPort, landfall.ports[0]?.name)
  for (const [container, { spec }] of [[migrate, job], [landfall, deployment]] as const) {
    t.same(
      container.volumeMounts.map(({ name }) => name).sort(),
      spec.template.spec.volumes.map(({ name }) => name).sort()
    )
    t.match(container.image, /@sha256:[0-9a-f]{64}$/)
  }
  t.equal(migrate.image, landfall.image)

  const { tls, rules } = ingress.spec
  const { host } = new URL(settingOf('BASE_URL'))
  t.same([tls.flatMap(({ hosts }) => hosts), rules.map((rule) => rule.host)], [[host], [host]])
  t.same(rules.flatMap(({ http }) => http.paths.map(({ backend }) => backend.service)), [
    { name: service.metadata.name, port: { name: service.spec.ports[0]?.name } }
  ])
  t.end()
})

t.test('each port is open to chosen pods of one other namespace', (t) => {
  t.same(policy.spec.policyTypes, ['Ingress'])
  t.same(
    policy.spec.ingress.map(({ ports }) => ports.map(({ port }) => port)),
    landfall.ports.map(({ name }) => [name])
  )
  for (const { from } of policy.spec.ingress) {
    t.equal(from.length, 1)
    for (const { namespaceSelector, podSelector } of from) {
      t.ok(Object.keys(namespaceSelector.matchLabels).length > 0)
      t.ok(Object.keys(podSelector.matchLabels).length > 0)
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
      .all(landfall.ports.map(async (
        { containerPort }
      ) => [String(containerPort), String(await freePort())])))
  const { mountPath = '' } = landfall.volumeMounts.find(({ name }) => name === 'secrets') ?? {}
  const settingsOf = ({ env }: Container): Record<string, string> =>
    Object.fromEntries(env.map(({ name, value }) => [
      name,
      ports[value] ??
        value.replace(mountPath, folder).replace('/app/', `${folder}/`)
    ]))
  const [program, script] = SERVE

  const { code, output } = await runService(t, settingsOf(migrate), [program, script, ...migrate.args ?? []])
  t.equal(code, 0, output)
  const settings = settingsOf(landfall)
  const { end } = await startService(t, settings)
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const) {
    const { path, port } = landfall[probe].httpGet
    const listening = landfall.ports.find(({ name }) => name === port)?.containerPort
    t.equal((await call('GET', `http://127.0.0.1:${ports[String(listening)]}${path}`)).status, 200, probe)
  }
  t.equal(landfall.startupProbe.httpGet.path, '/health/ready')
  const volume = landfall.volumeMounts.find(({ name }) => name === 'uploads')?.mountPath
  t.ok(
    settingOf('UPLOADS_DIR').startsWith(`${volume}/`),
    'not the volume itself, whose mode depends on its driver'
  )
  t.equal(statSync(settings.UPLOADS_DIR as string).mode & 0o777, 0o700)
  t.equal((await call('GET', `http://127.0.0.1:${settings.OPS_PORT}/metrics`)).status, 200)
  t.ok(
    deployment.spec.template.spec.terminationGracePeriodSeconds * 1000 > Number(settings.SHUTDOWN_TIMEOUT_MS),
    'Kubernetes waits longer than the shutdown can take'
  )
  t.equal(await end('SIGTERM'), 0)
})
