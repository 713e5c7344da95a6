import nodemailer, { type NodemailerError } from 'nodemailer'
import { isPlainEmailAddress } from './email-addresses.ts'
import type { MailText } from './texts.ts'

// Speaks SMTP through nodemailer.

/** Limits of the steps of a connection, in milliseconds. */
const CONNECTION_TIMEOUT_MS = 10_000
const IDLE_TIMEOUT_MS = 20_000
const DNS_TIMEOUT_MS = 5_000

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/i

export interface OutgoingMail extends MailText {
  /** Without angle brackets. Receivers may drop a second mail with the same id. */
  readonly messageId: string
  readonly recipient: string
}

/** Sends a mail. @throws {Error} when the server didn't take it, or `signal` was aborted */
export type SendMail = (mail: OutgoingMail, signal: AbortSignal) => Promise<void>

/** Creates the function that sends mails through the server of SMTP_URL, on a new connection each. */
export function createTransport (
  { SMTP_URL, MAIL_FROM }: { readonly SMTP_URL: string, readonly MAIL_FROM: string }
): SendMail {
  const transporter = nodemailer.createTransport({
    ...serverOf(SMTP_URL),
    connectionTimeout: CONNECTION_TIMEOUT_MS,
    greetingTimeout: CONNECTION_TIMEOUT_MS,
    socketTimeout: IDLE_TIMEOUT_MS,
    dnsTimeout: DNS_TIMEOUT_MS
  })
  const from = senderOf(MAIL_FROM)
  return async ({ messageId, recipient, subject, text }, signal) => {
    if (!isPlainEmailAddress(recipient)) throw new AddressError()
    // As objects, which nodemailer doesn't parse.
    const to = { name: '', address: recipient }
    await transporter.sendMail({
      from,
      to,
      envelope: { from: { name: '', address: from.address }, to },
      messageId: `<${messageId}>`,
      subject,
      text,
      // RFC 3834, and the header that Exchange knows: nobody wants automatic responses.
      headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'OOF, AutoReply' },
      disableFileAccess: true,
      disableUrlAccess: true,
      signal
    })
  }
}

/** The address of a mail has a form in which mail might go to somebody else. */
class AddressError extends Error {}

/** Turns SMTP_URL into options of nodemailer. */
function serverOf (url: string) {
  const { protocol, hostname, port, username, password } = new URL(url)
  const isLocal = LOOPBACK.test(hostname)
  const secure = protocol === 'smtps:'
  const hasUser = username !== ''
  // Checking the certificate of an optional TLS wouldn't help: an attacker could hide the server's offer.
  const isVerified = !isLocal && (secure || hasUser)
  return {
    host: decodeURIComponent(hostname).replace(/^\[|\]$/g, ''),
    port: port === '' ? secure ? 465 : 587 : Number(port),
    secure,
    requireTLS: isVerified && !secure,
    tls: { rejectUnauthorized: isVerified },
    ...hasUser && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }
  }
}

/** Splits `Name <address>` or `address`. */
function senderOf (sender: string): { name: string, address: string } {
  const [, name = '', address = sender] = /^(.*) <(.*)>$/.exec(sender) ?? []
  return { name, address }
}

const ENHANCED_STATUS = /^\d{3}[ -](\d\.\d+\.\d+)\s/
/** Enhanced statuses about the recipient's address or mailbox, the size of the mail, and its format. */
const PERMANENT_STATUS = /^5\.(1\.([1236]|10)|2\.\d+|3\.4|6\.\d+)$/
/** The form of the address is wrong. Without an enhanced status, a 550 may be a relay that isn't allowed. */
const SYNTAX_ERROR = 501

/**
 * Whether trying again would be useless: the server refuses the recipient or the message for good. All other
 * refusals may be for the operator to mend, such as a relay that isn't allowed, or a missing DKIM record.
 */
export function isPermanent (error: unknown): boolean {
  if (error instanceof AddressError) return true
  const { command, permanent, responseCode = 0 } = error as NodemailerError
  if (permanent !== true) return false
  const { enhancedStatus } = describeFailure(error)
  if (enhancedStatus === undefined) return command === 'RCPT TO' && responseCode === SYNTAX_ERROR
  // Some servers check the recipient only after the data.
  return (command === 'RCPT TO' || command === 'DATA') && PERMANENT_STATUS.test(enhancedStatus)
}

/**
 * Describes a failure for the log: its step and its status, with the enhanced status code (RFC 3463). The
 * words of the server aren't logged, because they often contain the address.
 */
export function describeFailure (error: unknown) {
  if (error instanceof AddressError) return { reason: 'the address is not plain' }
  const { code, command, response, responseCode: status, message } = error as NodemailerError
  if (response === undefined) {
    return { code, command, reason: command === undefined || command === 'CONN' ? message : undefined }
  }
  return { code, command, status, enhancedStatus: ENHANCED_STATUS.exec(response)?.[1] }
}
