import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { json } from 'node:stream/consumers'
import { provide } from '../../shared/programs.ts'
import { freePort, listen, type Teardown } from '../../helpers/servers.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs Prometheus and Alertmanager with the files of deploy/monitoring.

const FOLDER = join(PROJECT, 'deploy/monitoring')
const read = (name: string): string => readFileSync(join(FOLDER, name), 'utf8')

/**
 * Starts Prometheus with shorter intervals; returns a query function.
 *
 * @param ports of /metrics, by the address of the example that each replaces
 */
export async function startPrometheus (
  t: Teardown,
  ports: Readonly<Record<string, number>>
): Promise<(expression: string) => Promise<number[]>> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  // The interval is also the time limit of a scrape, which a busy machine needs.
  let settings = read('prometheus.yml').replaceAll(/_interval: 15s/g, '_interval: 3s')
  for (const [address, metricsPort] of Object.entries(ports)) {
    settings = settings.replace(address, `127.0.0.1:${metricsPort}`)
  }
  writeFileSync(join(folder, 'prometheus.yml'), settings)
  writeFileSync(join(folder, 'prometheus-rules.yml'), read('prometheus-rules.yml'))
  const api = `http://127.0.0.1:${port}`
  await run(t, provide('prometheus'), [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--log.level=warn'
  ], api)
  return async (expression) => {
    const response =
      await fetch(`${api}/api/v1/query?${new URLSearchParams({ query: expression }).toString()}`)
    const { status, error, data } = await response.json() as {
      status: string
      error?: string
      data: { result: { value: [number, string] }[] }
    }
    if (status !== 'success') throw new Error(`${expression}: ${error}`)
    return data.result.map(({ value: [, value] }) => Number(value))
  }
}

/** Returns the output of promtool, also if it fails. */
export function promtool (...args: readonly string[]): string {
  try {
    const program = join(dirname(provide('prometheus')), 'promtool')
    return execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string, stderr: string }
    return `${stdout}\n${stderr}`
  }
}

export interface AlertmanagerAlert {
  readonly labels: Readonly<Record<string, string>>
  readonly status: { readonly state: 'active' | 'suppressed' | 'unprocessed' }
}

/** What Alertmanager sends, to a pager or as a ticket. */
interface Message {
  readonly status: 'firing' | 'resolved'
  readonly groupLabels: Readonly<Record<string, string>>
}

/** Starts Alertmanager with the example. */
export async function startAlertmanager (t: Teardown) {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const pages: Message[] = []
  const receiver = createServer((request, response) => {
    json(request).then((body) => {
      const message = body as Message
      if (request.url === '/page' && message.status === 'firing') pages.push(message)
      response.end()
    }, () => response.destroy())
  })
  const receiverPort = await listen(t, receiver)
  const settings = read('alertmanager.yml').replaceAll('127.0.0.1:9095', `127.0.0.1:${receiverPort}`)
  writeFileSync(join(folder, 'alertmanager.yml'), settings.replace('group_wait: 30s', 'group_wait: 500ms'))
  const api = `http://127.0.0.1:${port}`
  await run(t, provide('alertmanager'), [
    `--config.file=${join(folder, 'alertmanager.yml')}`,
    `--storage.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--cluster.listen-address=',
    '--log.level=warn'
  ], api)
  return {
    /** The messages to the pager about alerts that fire. */
    pages,
    /** Returns the alerts that fire. */
    alerts: async () => await (await fetch(`${api}/api/v2/alerts`)).json() as AlertmanagerAlert[],
    /** Sends alerts as Prometheus does. */
    send: async (alerts: readonly Pick<AlertmanagerAlert, 'labels'>[]) => {
      const headers = { 'content-type': 'application/json' }
      await fetch(`${api}/api/v2/alerts`, { method: 'POST', headers, body: JSON.stringify(alerts) })
    }
  }
}

/** Starts a program and waits until it is ready; the end of the test kills it. */
async function run (t: Teardown, program: string, args: readonly string[], api: string): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', (data: Buffer) => {
    output += data.toString()
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) {
      await new Promise((resolve) => child.once('exit', resolve))
    }
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended:\n${output}`)
    return await fetch(`${api}/-/ready`).then(({ ok }) => ok, () => false)
  })
}
