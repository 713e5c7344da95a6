import t from 'tap'
import { retrySeconds } from '../../../src/modules/accounts/mail/sender.ts'
import { writeMail } from '../../../src/modules/accounts/mail/texts.ts'

const CONTEXT = { baseUrl: 'https://pages.example.com/x', recipient: 'you@example.com' }
const ACCOUNT = 'the account you@example.com at https://pages.example.com/x'
const CONFIRM = 'https://pages.example.com/x/account/confirm-email#token=abc'
const RESET = 'https://pages.example.com/x/account/reset-password#token=abc'
const WARNING =
  "If this wasn't you, somebody else can use your account: ask for a link to reset your password at once, " +
  'and tell the operator of the service.'
const KEY = { scopes: ['pages:read', 'pages:write'], expires_at: '2027-01-02T03:04:05.678Z' }

/** For each kind of mail: what is known about it, its subject and its paragraphs. */
const MAILS = {
  email_confirmation: [{ link: CONFIRM }, 'Confirm your email address', [
    'Somebody has given you@example.com as the email address of an account at https://pages.example.com/x. ' +
    'If this was you, confirm the address with this link:',
    CONFIRM,
    'The link is valid for an hour and can be used once. Confirming ends all sessions and deletes all API ' +
    'keys and preview links of the account; sign in again afterwards.',
    "If this wasn't you, ignore this mail: the address then stays unconfirmed."
  ]],
  password_reset: [{ link: RESET }, 'Reset your password', [
    `Somebody has asked to reset the password of ${ACCOUNT}. If this was you, choose a new password with ` +
    'this link:',
    RESET,
    'The link is valid for an hour and can be used once. A new password ends all sessions and deletes all ' +
    'API keys and preview links of the account.',
    "If this wasn't you, ignore this mail: the password then stays as it is."
  ]],
  password_changed: [{}, 'Your password was changed', [
    `The password of ${ACCOUNT} was changed. This ended all sessions of the account and all links to reset ` +
    'its password, and deleted its API keys and preview links.',
    WARNING
  ]],
  api_key_created: [{ details: KEY }, 'A new API key was created', [
    `An API key was created for ${ACCOUNT}. The list of your keys shows its name.`,
    'Scopes: pages:read, pages:write',
    'Expires: 2 January 2027 at 03:04 UTC',
    `${WARNING} The reset deletes the key, too.`
  ]],
  account_deleted: [{}, 'Your account was deleted', [
    'The account you@example.com at https://pages.example.com/x was deleted, with its pages, files, sessions ' +
    'and API keys.',
    "If this wasn't you, tell the operator of the service."
  ]],
  webhook_paused: [{ details: { reason: 'failing' } }, 'A webhook was paused', [
    `A webhook of ${ACCOUNT} was paused, because it has failed for three days. Messages about your pages wait ` +
    'until you activate it again.',
    'The list of your webhooks shows which one it is, and its deliveries show why they have failed.'
  ]]
} as const

t.test('each mail has its words as text and as HTML', async (t) => {
  for (const [kind, [known, subject, paragraphs]] of Object.entries(MAILS)) {
    const html = paragraphs.map((one) =>
      `<p>${one.startsWith('https:') ? `<a href="${one}">${one}</a>` : one.replaceAll("'", '&#39;')}</p>\n`
    )
    t.strictSame(writeMail(kind as keyof typeof MAILS, { ...CONTEXT, ...known }), {
      subject,
      text: `${paragraphs.join('\n\n')}\n`,
      html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${subject}</title></head>
<body>
${html.join('')}</body>
</html>
`
    }, kind)
  }
  t.match(writeMail('password_changed', { ...CONTEXT, details: { session_kept: true } }), {
    text: / This ended all other sessions of the account /
  })
  t.match(writeMail('webhook_paused', { ...CONTEXT, details: { reason: 'gone' } }), { text: /status 410/ })
  t.match(writeMail('api_key_created', { ...CONTEXT, details: { ...KEY, expires_at: null } }), {
    text: /^Expires: never$/m
  })
})

t.test('attempts to send a mail are first 15 seconds apart, and at most five minutes', async (t) => {
  t.same([1, 2, 3, 4, 5, 6, 7, 300].map(retrySeconds), [15, 30, 60, 120, 240, 300, 300, 300])
})
