import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import type { Teardown } from './servers.ts'
import { until } from './until.ts'

// A real SMTP server on the loopback address that keeps what it receives.

export interface ReceivedMail {
  /** The address of MAIL FROM. */
  readonly from: string
  /** The addresses of RCPT TO. */
  readonly to: readonly string[]
  /** By name in lower case, unfolded. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The user of AUTH, or undefined. */
  readonly user: string | undefined
  readonly secure: boolean
}

export type MailServer = Awaited<ReturnType<typeof startMailServer>>

/**
 * Starts a mail server; the end of the test stops it.
 *
 * @param options of smtp-server; by default it offers neither TLS nor AUTH
 */
export async function startMailServer (t: Teardown, options: SMTPServerOptions = {}) {
  const mails: ReceivedMail[] = []
  const server = new SMTPServer({
    logger: false,
    closeTimeout: 100,
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    onData (stream, { envelope, user, secure }, done) {
      text(stream).then((raw) => {
        mails.push({
          ...parseMail(raw),
          from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address),
          user: user as string | undefined,
          secure
        })
        done()
      }, done)
    },
    ...options
  })
  server.on('error', () => {}) // of connections that a test breaks
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(async () => await new Promise<void>((resolve) => server.close(resolve)))
  const { port } = server.server.address() as AddressInfo
  const url = `${options.secure === true ? 'smtps' : 'smtp'}://127.0.0.1:${port}`
  return {
    url,
    /** The settings of a service that sends through this server. */
    settings: { SMTP_URL: url, MAIL_FROM: 'Landfall <noreply@landfall.test>' },
    /** Everything received, oldest first. */
    mails: mails as readonly ReceivedMail[],
    /** Waits for the mail number `count` to an address, and returns it. */
    mailTo: async (address: string, count = 1) =>
      await until(
        () => mails.filter(({ to }) => to.includes(address))[count - 1],
        `mail ${count} to ${address}`
      ),
    /** Waits for the mail number `count` with a link to an address, and returns its token. */
    linkTo: async (address: string, count = 1) =>
      tokenIn(await until(
        () => mails.filter(({ to, text }) => to.includes(address) && text.includes('#token='))[count - 1],
        `link ${count} to ${address}`
      ))
  }
}

/** Returns the token of the link in a mail. */
export function tokenIn ({ text }: Pick<ReceivedMail, 'text'>): string {
  const token = /#token=([\w-]{43})$/m.exec(text)?.[1]
  if (token === undefined) throw new Error(`no link in the mail:\n${text}`)
  return token
}

/** Parses a mail of plain text. */
export function parseMail (raw: string): Pick<ReceivedMail, 'headers' | 'text'> {
  const end = raw.indexOf('\r\n\r\n')
  const lines = raw.slice(0, end).replace(/\r\n[ \t]+/g, ' ').split('\r\n')
  const headers: Record<string, string> = Object.fromEntries(lines.map((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  }))
  return { headers, text: decode(raw.slice(end + 4), headers['content-transfer-encoding']) }
}

function decode (body: string, encoding = '7bit'): string {
  const text = body.replaceAll('\r\n', '\n')
  if (encoding === 'base64') return Buffer.from(text, 'base64').toString()
  if (encoding !== 'quoted-printable') return text
  const bytes = text.replace(/=\n/g, '').replace(
    /=([0-9A-F]{2})/g,
    (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))
  )
  return Buffer.from(bytes, 'latin1').toString()
}
