import { entityTag } from '../../../http/content-encoding.ts'
import { BATCH_EVENT } from '../../landing-pages/index.ts'
import { TEST_EVENT } from '../delivery-repository.ts'
import type { OutgoingMessage } from './outgoing-repository.ts'

/** Returns the body of a message, which is the same at each attempt. It tells a state, never a document. */
export const bodyOf = (message: OutgoingMessage): string =>
  JSON.stringify({ type: message.type, timestamp: message.changedAt.toISOString(), data: dataOf(message) })

function dataOf (message: OutgoingMessage): object {
  const { type, merged, contentHash, authorType, authorName } = message
  if (type === TEST_EVENT) return {}
  if (type === BATCH_EVENT) return { merged, since: message.createdAt.toISOString() }
  return {
    page: { id: message.pageId, public_id: message.publicId },
    version: Number(message.version),
    etag: contentHash === null ? null : entityTag(contentHash),
    author: authorType === null ? null : { type: authorType, name: authorName },
    merged
  }
}
