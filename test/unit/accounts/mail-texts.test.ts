import t from 'tap'
import { writeMail } from '../../../src/modules/accounts/mail/texts.ts'
import { retrySeconds } from '../../../src/modules/accounts/mail/sender.ts'

const CONTEXT = { baseUrl: 'https://pages.example.com/x', recipient: 'you@example.com' }

t.test('the mail that confirms an address has the link as text and HTML', (t) => {
  const link = 'https://pages.example.com/x/account/confirm-email#token=abc'
  t.strictSame(writeMail('email_confirmation', { ...CONTEXT, link }), {
    subject: 'Confirm your email address',
    text:
      `Somebody has given you@example.com as the email address of an account at https://pages.example.com/x. If this was you, confirm the address with this link:

https://pages.example.com/x/account/confirm-email#token=abc

The link is valid for an hour and can be used once. Confirming ends all sessions and deletes all API keys of the account; sign in again afterwards.

If this wasn't you, ignore this mail: the address then stays unconfirmed.
`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Confirm your email address</title></head>
<body>
<p>Somebody has given you@example.com as the email address of an account at https://pages.example.com/x. If this was you, confirm the address with this link:</p>
<p><a href="https://pages.example.com/x/account/confirm-email#token=abc">https://pages.example.com/x/account/confirm-email#token=abc</a></p>
<p>The link is valid for an hour and can be used once. Confirming ends all sessions and deletes all API keys of the account; sign in again afterwards.</p>
<p>If this wasn&#39;t you, ignore this mail: the address then stays unconfirmed.</p>
</body>
</html>
`
  })
  t.end()
})

t.test('the mail that resets a password has the link as text and HTML', (t) => {
  const link = 'https://pages.example.com/x/account/reset-password#token=abc'
  t.strictSame(writeMail('password_reset', { ...CONTEXT, link }), {
    subject: 'Reset your password',
    text:
      `Somebody has asked to reset the password of the account you@example.com at https://pages.example.com/x. If this was you, choose a new password with this link:

https://pages.example.com/x/account/reset-password#token=abc

The link is valid for an hour and can be used once. A new password ends all sessions and deletes all API keys of the account.

If this wasn't you, ignore this mail: the password then stays as it is.
`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Reset your password</title></head>
<body>
<p>Somebody has asked to reset the password of the account you@example.com at https://pages.example.com/x. If this was you, choose a new password with this link:</p>
<p><a href="https://pages.example.com/x/account/reset-password#token=abc">https://pages.example.com/x/account/reset-password#token=abc</a></p>
<p>The link is valid for an hour and can be used once. A new password ends all sessions and deletes all API keys of the account.</p>
<p>If this wasn&#39;t you, ignore this mail: the password then stays as it is.</p>
</body>
</html>
`
  })
  t.end()
})

t.test('the mail about a new password says what it ended', (t) => {
  t.strictSame(writeMail('password_changed', CONTEXT), {
    subject: 'Your password was changed',
    text:
      `The password of the account you@example.com at https://pages.example.com/x was changed. This ended all sessions of the account and all links to reset its password, and deleted its API keys.

If this wasn't you, somebody else can use your account: ask for a link to reset your password at once, and tell the operator of the service.
`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Your password was changed</title></head>
<body>
<p>The password of the account you@example.com at https://pages.example.com/x was changed. This ended all sessions of the account and all links to reset its password, and deleted its API keys.</p>
<p>If this wasn&#39;t you, somebody else can use your account: ask for a link to reset your password at once, and tell the operator of the service.</p>
</body>
</html>
`
  })
  t.match(writeMail('password_changed', { ...CONTEXT, details: { session_kept: true } }), {
    text: / This ended all other sessions of the account /
  })
  t.end()
})

t.test('the mail about a new API key has its scopes and its expiry', (t) => {
  const details = {
    scopes: ['pages:read', 'pages:write'],
    expires_at: '2027-01-02T03:04:05.678Z'
  }
  t.strictSame(writeMail('api_key_created', { ...CONTEXT, details }), {
    subject: 'A new API key was created',
    text:
      `An API key was created for the account you@example.com at https://pages.example.com/x. The list of your keys shows its name.

Scopes: pages:read, pages:write

Expires: 2 January 2027 at 03:04 UTC

If this wasn't you, somebody else can use your account: ask for a link to reset your password at once, and tell the operator of the service. The reset deletes the key, too.
`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>A new API key was created</title></head>
<body>
<p>An API key was created for the account you@example.com at https://pages.example.com/x. The list of your keys shows its name.</p>
<p>Scopes: pages:read, pages:write</p>
<p>Expires: 2 January 2027 at 03:04 UTC</p>
<p>If this wasn&#39;t you, somebody else can use your account: ask for a link to reset your password at once, and tell the operator of the service. The reset deletes the key, too.</p>
</body>
</html>
`
  })
  t.match(writeMail('api_key_created', { ...CONTEXT, details: { ...details, expires_at: null } }), {
    text: /^Expires: never$/m
  })
  t.end()
})

t.test('the mail about a deleted account says what is gone', (t) => {
  t.strictSame(writeMail('account_deleted', CONTEXT), {
    subject: 'Your account was deleted',
    text:
      `The account you@example.com at https://pages.example.com/x was deleted, with its pages, files, sessions and API keys.

If this wasn't you, tell the operator of the service.
`,
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Your account was deleted</title></head>
<body>
<p>The account you@example.com at https://pages.example.com/x was deleted, with its pages, files, sessions and API keys.</p>
<p>If this wasn&#39;t you, tell the operator of the service.</p>
</body>
</html>
`
  })
  t.end()
})

t.test('attempts to send a mail are first 15 seconds apart, and at most five minutes', (t) => {
  t.same([1, 2, 3, 4, 5, 6, 7, 300].map(retrySeconds), [15, 30, 60, 120, 240, 300, 300, 300])
  t.end()
})
