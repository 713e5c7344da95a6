import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { JSON_TYPE, read, type Contender } from './contender.ts'
import { crowdContenders, openLoopContenders } from './crowd.ts'
import type { Page } from './documents.ts'
import { findProgram } from './machine.ts'
import { nginxServer } from './nginx.ts'
import { ourContenders } from './ours.ts'
import type { Seed } from './seed.ts'

// All contenders, with their expected responses.

/** All contenders, in the order of their turns. */
export function allContenders (added: string | undefined): Contender[] {
  const small = (seed: Seed): Page => seed.small
  const large = (seed: Seed): Page => seed.large
  const nginx = findProgram('nginx')
  const both = (id: string, name: string, file: string): [Contender, Contender] => [
    baseline(`${id}-2k`, `${name} 2 KB`, 'bare-2k', file, small),
    baseline(`${id}-30k`, `${name} 30 KB`, 'bare-30k', file, large)
  ]
  const [bareSmall, bareLarge] = both('bare', 'bare Fastify', 'bare-fastify.js')
  const [hotSmall, hotLarge, ...ours] = ourContenders()
  const [crowd, ...allowedCrowds] = crowdContenders()
  return [
    // These are compared most often, so their turns are adjacent, because the machine's speed drifts.
    crowd,
    bareSmall,
    hotSmall,
    ...allowedCrowds,
    ...openLoopContenders(bareSmall),
    bareLarge,
    hotLarge,
    ...both('node', 'node:http', 'node-http.js'),
    ...both('nginx', 'nginx static file', '').map((contender): Contender => ({
      ...contender,
      server: {
        id: 'nginx',
        command: ({ stores, seed }) =>
          nginxServer(nginx ?? 'nginx', stores.guardian.folder, [seed.small, seed.large])
      },
      skip: nginx === undefined ? 'nginx is not installed' : undefined
    })),
    baseline('memory-2k', 'Fastify + rate limit in memory 2 KB', 'bare-2k', 'rate-limit-memory.js', small),
    ...both('obvious', 'everything in Redis', 'rate-limit-redis.js'),
    baseline('prisma-2k', 'Fastify + Prisma each time 2 KB', 'bare-2k', 'prisma.js', small),
    ...(added === undefined ? [] : both('added', 'added', added)),
    bareStatus('bare-304', 304),
    bareStatus('bare-429', 429),
    ...ours
  ]
}

/**
 * Returns the contenders whose names contain one of the texts (all contenders if there are no texts), and
 * those that they are compared with.
 */
export function selectContenders (contenders: readonly Contender[], only: readonly string[]): Contender[] {
  const byId = new Map(contenders.map((contender) => [contender.id, contender]))
  const chosen = new Set<string>()
  const choose = (id: string): void => {
    const contender = byId.get(id)
    if (contender === undefined || chosen.has(id)) return
    chosen.add(id)
    choose(contender.bare)
    if (contender.halfRateOf !== undefined) choose(contender.halfRateOf)
    if (contender.skip !== undefined) return
    for (const target of contender.targets ?? []) if ('of' in target) choose(target.of)
  }
  for (const { id, name } of contenders) {
    if (only.length === 0 || isCalled(name, only) || id.startsWith('added')) choose(id)
  }
  return contenders.filter(({ id }) => chosen.has(id))
}

/** Whether a name contains one of the texts, ignoring case. */
export const isCalled = (name: string, texts: readonly string[]): boolean =>
  texts.some((text) => name.toLowerCase().includes(text.toLowerCase()))

/** The bare Fastify with another status. */
const bareStatus = (id: 'bare-304' | 'bare-429', status: 304 | 429): Contender => ({
  ...baseline(id, `bare Fastify ${status}`, id, 'bare-fastify.js', ({ small }) => small, {
    STATUS: String(status)
  }),
  expected: () => ({ status, headers: {} })
})

function baseline (
  id: string,
  name: string,
  bare: Contender['bare'],
  file: string,
  page: (seed: Seed) => Page,
  env: Record<string, string> = {}
): Contender {
  return {
    id,
    name,
    bare,
    server: {
      id,
      command ({ stores, seed }) {
        const { publicId, text } = page(seed)
        const document = join(stores.guardian.folder, `${publicId}.json`)
        writeFileSync(document, text)
        return {
          name: id,
          command: [process.execPath, resolve(import.meta.dirname, 'baselines', file)],
          env: {
            PUBLIC_ID: publicId,
            DOCUMENT_FILE: document,
            REDIS_URL: stores.claimRedis(),
            DATABASE_URL: stores.postgresUrl,
            ...env
          }
        }
      }
    },
    load: ({ seed }) => ({ requests: [read(page(seed))] }),
    expected: ({ seed }) => ({ status: 200, text: page(seed).text, headers: { 'content-type': JSON_TYPE } })
  }
}
