import type { FastifyInstance } from 'fastify'
import { clock } from '../../../infra/system/clock.ts'
import type { LandingPage } from '../landing-page-repository.ts'
import { documentVersion } from '../public/cached-document.ts'

/**
 * Writes a page and publishes its document to the caches.
 *
 * @param write returns null if it has written nothing
 * @returns the result of `write`
 */
export async function writeAndPublish<Written extends LandingPage | null> (
  { documents }: FastifyInstance,
  write: () => Promise<Written>
): Promise<Written> {
  const startedAt = clock.now()
  const page = await write()
  if (page !== null) await documents.publish(page.publicId, documentVersion(page), startedAt)
  return page
}
