import type { FastifyInstance } from 'fastify'
import { createToken, hashToken } from '../../../infra/system/identifiers.ts'
import { isLinkKind, linkTo } from './link-pages.ts'
import { claimMail, postponeMail, removeMail, type ClaimedMail, type MailKind } from './queue-repository.ts'
import { writeMail } from './texts.ts'
import { describeFailure, isPermanent, type SendMail } from './transport.ts'

const FIRST_RETRY_SECONDS = 15
const MAX_RETRY_SECONDS = 5 * 60
const MAX_AGE_SECONDS = 24 * 60 * 60

/** Returns how long a mail waits after its failed attempt number `attempts`, in seconds. */
export const retrySeconds = (attempts: number): number =>
  Math.min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))

type Counts = Record<MailKind, number>
const noCounts = (): Counts => ({
  email_confirmation: 0,
  password_reset: 0,
  password_changed: 0,
  api_key_created: 0,
  account_deleted: 0,
  webhook_paused: 0
})

/** A newer release may have queued a kind that this one doesn't know. */
function count (counts: Partial<Counts>, kind: MailKind): void {
  counts[kind] = (counts[kind] ?? 0) + 1
}

/** Sends the mails of the queue. */
export class MailSender {
  /** Mails that the server took, attempts that failed, and mails that were given up. */
  readonly counts = { sent: noCounts(), failed: noCounts(), givenUp: noCounts() }
  readonly #app: FastifyInstance
  readonly #send: SendMail

  constructor (app: FastifyInstance, send: SendMail) {
    this.#app = app
    this.#send = send
  }

  /** Claims a mail that is due. @returns the function that sends it; undefined when no mail is due */
  async claim (): Promise<((signal: AbortSignal) => Promise<void>) | undefined> {
    const token = createToken()
    const mail = await claimMail(this.#app.database, hashToken(token))
    return mail && (async (signal) => await this.#deliver(mail, token, signal))
  }

  async #deliver (mail: ClaimedMail, token: string, signal: AbortSignal): Promise<void> {
    const { database, log } = this.#app
    const { id, kind, attempts } = mail
    if (isLinkKind(kind) && !mail.hasLink) { // a newer mail carries the link, or no link may be used any more
      await removeMail(database, mail)
      return
    }
    try {
      const baseUrl = this.#app.baseUrl()
      const link = isLinkKind(kind) ? linkTo(baseUrl, kind, token) : undefined
      const text = writeMail(kind, { ...mail, baseUrl, link })
      // A new attempt has a new link, so receivers must not take it for the same mail.
      const unique = link === undefined ? id : `${id}.${attempts}`
      await this.#send(
        { ...text, messageId: `${unique}@${new URL(baseUrl).hostname}`, recipient: mail.recipient },
        signal
      )
    } catch (error) {
      return await this.#handleFailure(mail, error)
    }
    count(this.counts.sent, kind)
    log.info({ mail: id, kind, attempts, user: mail.userId ?? undefined }, 'mail sent')
    await removeMail(database, mail)
  }

  async #handleFailure (mail: ClaimedMail, error: unknown): Promise<void> {
    const { database, log } = this.#app
    const { id, kind, attempts, ageSeconds } = mail
    count(this.counts.failed, kind)
    const about = {
      mail: id,
      kind,
      attempts,
      user: mail.userId ?? undefined,
      failure: describeFailure(error)
    }
    if (isPermanent(error) || ageSeconds >= MAX_AGE_SECONDS) {
      if (!await removeMail(database, mail)) return
      count(this.counts.givenUp, kind)
      log.warn(about, 'mail given up')
      return
    }
    const seconds = retrySeconds(attempts)
    log.warn(about, `mail not sent; trying again in ${seconds} seconds`)
    await postponeMail(database, mail, seconds)
  }
}
