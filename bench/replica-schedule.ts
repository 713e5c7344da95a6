import { seededRandom } from './statistics.ts'

// The reads of simulated clients in one window, and the replicas that get them. All processes of the
// simulation draw the same reads, so that none has to tell the others.

/** A replica that crashes or shuts down gracefully, and one that joins in its place. */
export interface Change {
  /** Milliseconds since the beginning. */
  readonly at: number
  readonly leaves: number
  readonly joins: number
  readonly inOrder: boolean
}

export interface Plan {
  /** Distinguishes the clients from those of other plans. */
  readonly name: string
  /** Reads that a client is allowed. */
  readonly max: number
  readonly clients: number
  /** The share of clients that send `ABUSE` times their limit; others send 1 to `MOST_GOOD_READS` reads. */
  readonly abusive: number
  /** Whether all reads of a client go to one replica; otherwise each goes to a random one. */
  readonly affinity: boolean
  /** Numbers of the replicas at the beginning. */
  readonly replicas: readonly number[]
  readonly changes: readonly Change[]
  /** The reads are spread over this time, in milliseconds. It is shorter than a window. */
  readonly periodMs: number
}

/** One read: which client, at which replica, and when, in milliseconds since the beginning. */
export interface Read {
  readonly at: number
  readonly client: number
  readonly replica: number
}

export const ABUSE = 2
const MOST_GOOD_READS = 5

/** The abusive clients are those with the lowest numbers. */
export const abusiveClients = ({ clients, abusive }: Plan): number => Math.round(clients * abusive)

/** Returns all reads in the order of their times. */
export function readsOf (plan: Plan): Read[] {
  const random = seededRandom([...plan.name].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7))
  const below = (count: number): number => Math.floor(random() * count)
  const times: [at: number, client: number][] = []
  for (let client = 0; client < plan.clients; client++) {
    const reads = client < abusiveClients(plan) ? ABUSE * plan.max : 1 + below(MOST_GOOD_READS)
    for (let n = 0; n < reads; n++) times.push([random() * plan.periodMs, client])
  }
  const changes = plan.changes.toSorted((one, other) => one.at - other.at)
  const alive = [...plan.replicas]
  const replicaOf = Array.from({ length: plan.clients }, () => below(alive.length))
  return times.sort(([one], [other]) => one - other).map(([at, client]) => {
    for (; changes[0] !== undefined && changes[0].at <= at; changes.shift()) {
      alive[alive.indexOf(changes[0].leaves)] = changes[0].joins
    }
    const index = plan.affinity ? replicaOf[client] as number : below(alive.length)
    return { at, client, replica: alive[index] as number }
  })
}
