import slotOf from 'cluster-key-slot'
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { freePort, startRedisServer, type PrivateServer, type Teardown } from './servers.ts'
import { until } from './until.ts'

// A Redis Cluster with three masters, each with a replica, whose nodes a test may break.

export interface ClusterNode {
  readonly server: PrivateServer
  readonly admin: Redis
  readonly id: string
}

const MASTERS = 3
const SLOTS = 16384
/** A master that doesn't answer for this long, in milliseconds, is replaced by its replica. */
export const NODE_TIMEOUT_MS = 1000

export class RedisCluster {
  readonly nodes: readonly ClusterNode[]
  /** REDIS_URL with all nodes. */
  readonly url: string

  constructor (nodes: readonly ClusterNode[]) {
    this.nodes = nodes
    const { username, password } = new URL((nodes[0] as ClusterNode).server.url)
    const hosts = nodes.map(({ server }) => `127.0.0.1:${server.port}`)
    this.url = `redis://${username}:${password}@${hosts.join(',')}`
  }

  /** Returns the master of a key, as another node than `except` sees it. */
  async masterOf (key: string, except?: ClusterNode): Promise<ClusterNode> {
    const { admin } = this.nodes.find((node) => node !== except) as ClusterNode
    const slot = slotOf(key)
    const ranges = await admin.cluster('SLOTS')
    const [, , first] = ranges.find(([from, to]) => from <= slot && slot <= to) ?? []
    return this.#node(String(first?.[2]))
  }

  async masters (): Promise<ClusterNode[]> {
    return (await this.#roles()).filter(({ isMaster }) => isMaster).map(({ node }) => node)
  }

  /** Returns the replica of a master. */
  async replicaOf (master: ClusterNode): Promise<ClusterNode> {
    const found = (await this.#roles()).find(({ masterId }) => masterId === master.id)
    if (found === undefined) throw new Error('the master has no replica')
    return found.node
  }

  /** Promotes the replica of a master, while both are up. */
  async failOver (master: ClusterNode): Promise<ClusterNode> {
    const replica = await this.replicaOf(master)
    await replica.admin.cluster('FAILOVER')
    await this.untilMaster(replica)
    return replica
  }

  async untilMaster (node: ClusterNode): Promise<void> {
    await until(
      async () => /^role:master/m.test(await node.admin.info('replication')),
      'the replica is a master'
    )
  }

  /** Waits until all nodes agree that all slots are served, and all replicas have their data. */
  async untilSteady (): Promise<void> {
    for (const { admin } of this.nodes) {
      await until(async () => {
        const [cluster, replication] = await Promise.all([admin.cluster('INFO'), admin.info('replication')])
          .catch(() => ['', ''])
        return /cluster_state:ok/.test(String(cluster)) && /cluster_slots_ok:16384/.test(String(cluster)) &&
          new RegExp(`cluster_known_nodes:${this.nodes.length}\\b`).test(String(cluster)) &&
          /master_link_status:up|connected_slaves:[1-9]/.test(String(replication))
      }, 'the cluster is steady')
    }
  }

  /** Moves the slot of a key to another master. `halfway` runs before its keys are moved. */
  async moveSlot (key: string, target: ClusterNode, halfway: () => Promise<unknown> = async () => {}) {
    const slot = slotOf(key)
    const source = await this.masterOf(key)
    await target.admin.cluster('SETSLOT', slot, 'IMPORTING', source.id)
    await source.admin.cluster('SETSLOT', slot, 'MIGRATING', target.id)
    await halfway()
    for (;;) {
      const keys = await source.admin.cluster('GETKEYSINSLOT', slot, 100) as string[]
      if (keys.length === 0) break
      await this.moveKeys(source, target, keys)
    }
    await target.admin.cluster('SETSLOT', slot, 'NODE', target.id)
    await source.admin.cluster('SETSLOT', slot, 'NODE', target.id)
  }

  /** Moves keys of a slot that is being moved. */
  async moveKeys (source: ClusterNode, target: ClusterNode, keys: readonly string[]): Promise<void> {
    const { password } = new URL(target.server.url)
    const options = ['', 0, 5000, 'REPLACE', 'AUTH', password, 'KEYS', ...keys]
    await source.admin.call('MIGRATE', '127.0.0.1', target.server.port, ...options)
  }

  #node (id: string): ClusterNode {
    return this.nodes.find((node) => node.id === id) as ClusterNode
  }

  async #roles () {
    return await Promise.all(this.nodes.map(async (node) => {
      const lines = String(await node.admin.cluster('NODES').catch(() => ''))
      const [, flags = '', masterId] = /^\S+ \S+ (\S*myself\S*) (\S+)/m.exec(lines) ?? []
      return { node, masterId, isMaster: flags.includes('master') }
    }))
  }
}

/** Starts a cluster; the end of the test stops it. `settings` are configuration directives of a node. */
export async function startRedisCluster (
  t: Teardown,
  settings: () => Promise<Record<string, string | number>> = async () => ({})
): Promise<RedisCluster> {
  const password = randomBytes(18).toString('base64url')
  const nodes = await Promise.all(Array.from({ length: 2 * MASTERS }, async (): Promise<ClusterNode> => {
    const server = await startRedisServer(t, {
      'cluster-enabled': 'yes',
      'cluster-port': await freePort(),
      'cluster-node-timeout': NODE_TIMEOUT_MS,
      'cluster-replica-validity-factor': 0,
      'cluster-allow-replica-migration': 'no',
      'repl-diskless-sync-delay': 0,
      requirepass: password,
      masterauth: password,
      ...await settings()
    })
    const admin = new Redis(server.url, { retryStrategy: () => 50, commandTimeout: 5000 })
    admin.on('error', () => {})
    t.teardown(() => admin.disconnect())
    return { server, admin, id: String(await admin.cluster('MYID')) }
  }))
  const masters = nodes.slice(0, MASTERS)
  for (const [n, { admin }] of masters.entries()) {
    const [first, next] = [n, n + 1].map((part) => Math.floor(part * SLOTS / MASTERS)) as [number, number]
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', first, next - 1)
    await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', n + 1)
  }
  for (const { server, admin } of nodes) {
    const [, busPort] = await admin.config('GET', 'cluster-port') as [string, string]
    await masters[0]?.admin.call('CLUSTER', 'MEET', '127.0.0.1', server.port, busPort)
  }
  for (const [n, { admin }] of nodes.slice(MASTERS).entries()) {
    const { id } = masters[n] as ClusterNode
    await until(
      async () => await admin.cluster('REPLICATE', id).then(() => true, () => false),
      'the replica knows its master'
    )
  }
  const cluster = new RedisCluster(nodes)
  await cluster.untilSteady()
  return cluster
}
