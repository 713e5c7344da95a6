import type { MailKind } from './queue-repository.ts'

// The texts of all mails. They contain nothing that users have written, which could mislead the owner of an
// address that somebody else has signed up with, or make a spam filter drop a warning.

export interface MailText {
  readonly subject: string
  readonly text: string
}

export interface MailContext {
  /** The public address of the service. */
  readonly baseUrl: string
  readonly recipient: string
  readonly link?: string | undefined
  /** JSON that the statement has stored with the mail that it queued. */
  readonly details?: Readonly<Record<string, any>> | null
}

interface Content {
  readonly subject: string
  readonly paragraphs: readonly string[]
}

const WAS_NOT_YOU =
  "If this wasn't you, somebody else can use your account: ask for a link to reset your password at " +
  'once, and tell the operator of the service.'

const CONTENTS: Readonly<Record<MailKind, (context: MailContext) => Content>> = {
  email_confirmation: ({ baseUrl, recipient, link = '' }) => ({
    subject: 'Confirm your email address',
    paragraphs: [
      `Somebody has given ${recipient} as the email address of an account at ${baseUrl}. If this was ` +
      'you, confirm the address with this link:',
      link,
      'The link is valid for an hour and can be used once. Confirming ends all sessions and deletes all ' +
      'API keys and preview links of the account; sign in again afterwards.',
      "If this wasn't you, ignore this mail: the address then stays unconfirmed."
    ]
  }),
  password_reset: ({ baseUrl, recipient, link = '' }) => ({
    subject: 'Reset your password',
    paragraphs: [
      `Somebody has asked to reset the password of the account ${recipient} at ${baseUrl}. If this was ` +
      'you, choose a new password with this link:',
      link,
      'The link is valid for an hour and can be used once. A new password ends all sessions and deletes ' +
      'all API keys and preview links of the account.',
      "If this wasn't you, ignore this mail: the password then stays as it is."
    ]
  }),
  password_changed: ({ baseUrl, recipient, details }) => {
    const ended = details?.session_kept === true ? 'all other sessions' : 'all sessions'
    return {
      subject: 'Your password was changed',
      paragraphs: [
        `The password of the account ${recipient} at ${baseUrl} was changed. This ended ${ended} of the ` +
        'account and all links to reset its password, and deleted its API keys and preview links.',
        'Webhooks, drafts, schedules and the address of your website for previews stay. If somebody else ' +
        'has used your account, look at all of them.',
        WAS_NOT_YOU
      ]
    }
  },
  api_key_created: ({ baseUrl, recipient, details }) => {
    const { scopes, expires_at: expiresAt } = details ?? {}
    return {
      subject: 'A new API key was created',
      paragraphs: [
        `An API key was created for the account ${recipient} at ${baseUrl}. The list of your keys shows ` +
        'its name.',
        `Scopes: ${scopes.join(', ')}`,
        `Expires: ${expiresAt === null ? 'never' : formatTime(expiresAt)}`,
        `${WAS_NOT_YOU} The reset deletes the key, too.`
      ]
    }
  },
  account_deleted: ({ baseUrl, recipient }) => ({
    subject: 'Your account was deleted',
    paragraphs: [
      `The account ${recipient} at ${baseUrl} was deleted, with its pages, files, sessions and API keys.`,
      "If this wasn't you, tell the operator of the service."
    ]
  }),
  webhook_paused: ({ baseUrl, recipient, details }) => {
    const reason = details?.reason === 'gone' ? 'its address says that it is gone (status 410)'
      : 'it has failed for three days'
    return {
      subject: 'A webhook was paused',
      paragraphs: [
        `A webhook of the account ${recipient} at ${baseUrl} was paused, because ${reason}. Messages about ` +
        'your pages wait until you activate it again.',
        'The list of your webhooks shows which one it is, and its deliveries show why they have failed.'
      ]
    }
  }
}

export const MAIL_KINDS = Object.keys(CONTENTS) as readonly MailKind[]

/** Writes a mail as plain text. @throws {Error} if this release doesn't know the kind */
export function writeMail (kind: MailKind, context: MailContext): MailText {
  if (!Object.hasOwn(CONTENTS, kind)) throw new Error('this release knows no such mail')
  const { subject, paragraphs } = CONTENTS[kind](context)
  return { subject, text: `${paragraphs.join('\n\n')}\n` }
}

const TIME_FORMAT = new Intl.DateTimeFormat('en-GB', {
  dateStyle: 'long',
  timeStyle: 'short',
  timeZone: 'UTC'
})
const formatTime = (time: string): string => `${TIME_FORMAT.format(new Date(time))} UTC`
