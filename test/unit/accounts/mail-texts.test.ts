import t from 'tap'
import { retrySeconds } from '../../../src/modules/accounts/mail/sender.ts'
import { writeMail } from '../../../src/modules/accounts/mail/texts.ts'

const CONTEXT = { baseUrl: 'https://pages.example.com/x', recipient: 'you@example.com' }
const LINK = 'https://pages.example.com/x/account/confirm-email#token=abc'
const KEY = { scopes: ['pages:read', 'pages:write'], expires_at: '2027-01-02T03:04:05.678Z' }

t.test('a mail is plain text with the link on a line of its own', async (t) => {
  const first = 'Somebody has given you@example.com as the email address of an account at ' +
    'https://pages.example.com/x. If this was you, confirm the address with this link:'
  const { subject, text } = writeMail('email_confirmation', { ...CONTEXT, link: LINK })
  t.equal(subject, 'Confirm your email address')
  t.ok(text.startsWith(`${first}\n\n${LINK}\n\nThe link is valid for an hour`), text)
  t.match(text, /\n\nIf this wasn't you, ignore this mail: .*\n$/)
})

t.test('a mail says which account it is about, what has happened, and what to do about it', async (t) => {
  const cases = [
    ['password_reset', { link: LINK }, new RegExp(`${LINK}[^]*wasn't you, ignore this mail`)],
    ['password_changed', {}, /ended all sessions of the account [^]*wasn't you, [^]*reset your password/],
    [
      'password_changed',
      { details: { session_kept: true } },
      / This ended all other sessions of the account /
    ],
    [
      'api_key_created',
      { details: KEY },
      /^Scopes: pages:read, pages:write\n\nExpires: 2 January 2027 at 03:04 UTC$/m
    ],
    ['api_key_created', { details: { ...KEY, expires_at: null } }, /^Expires: never$[^]*wasn't you/m],
    ['account_deleted', {}, /was deleted, with its pages[^]*tell the operator/],
    ['webhook_paused', { details: { reason: 'failing' } }, /failed for three days. [^]*activate it again/],
    ['webhook_paused', { details: { reason: 'gone' } }, /status 410/]
  ] as const
  for (const [kind, known, words] of cases) {
    const { text } = writeMail(kind, { ...CONTEXT, ...known })
    t.match(text, words, kind)
    t.match(text, /account you@example\.com at https:\/\/pages\.example\.com\/x/, kind)
  }
})

t.test('attempts to send a mail are first 15 seconds apart, and at most five minutes', async (t) => {
  t.same([1, 2, 3, 4, 5, 6, 7, 300].map(retrySeconds), [15, 30, 60, 120, 240, 300, 300, 300])
})
