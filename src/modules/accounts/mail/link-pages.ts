import type { FastifyPluginAsync } from 'fastify'
import type { LinkKind, MailKind } from './queue-repository.ts'

// The links in mails. The token is in the fragment, which browsers don't send and proxies don't log.

/** The pages to which the links lead, relative to the address of the service. */
export const LINK_PAGES: Readonly<Record<LinkKind, string>> = {
  password_reset: '/account/reset-password',
  email_confirmation: '/account/confirm-email'
}

export const isLinkKind = (kind: MailKind): kind is LinkKind => Object.hasOwn(LINK_PAGES, kind)

export const linkTo = (baseUrl: string, kind: LinkKind, token: string): string =>
  `${baseUrl}${LINK_PAGES[kind]}#token=${token}`

// The pages are the same for everybody: only the script reads the token. Nothing happens before a person
// acts, because mail scanners open links, too, and some of them run scripts.

interface Page {
  readonly title: string
  readonly text: string
  /** The fields and the button of the form. */
  readonly form: string
  /** The route that takes the form, relative to the page, because BASE_URL may have a path. */
  readonly target: string
  readonly done: string
}

const page = ({ title, text, form, target, done }: Page, hasConsole: boolean): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} – Landfall</title>
<link rel="stylesheet" href="page.css">
<script type="module" src="page.js"></script>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${text}</p>
<form hidden data-target="${target}" data-done="${done}">
${form}
</form>
<div id="message" role="alert"></div>
${hasConsole ? '<p id="next" hidden><a href="../console/">Open the console</a></p>' : ''}
<noscript><p>This page needs JavaScript.</p></noscript>
</main>
</body>
</html>
`

const RESET_PASSWORD: Page = {
  title: 'Reset your password',
  text: 'A new password ends all sessions and deletes all API keys and preview links of your account.',
  form: `<p><label for="password">New password</label>
<input id="password" name="password" type="password" autocomplete="new-password" required></p>
<p><label for="confirmation">New password, repeated</label>
<input id="confirmation" name="password_confirmation" type="password" autocomplete="new-password"
  required></p>
<p><button>Change the password</button></p>`,
  target: '../auth/password_resets',
  done: 'Your password is changed. You can sign in with it now.'
}

const CONFIRM_EMAIL: Page = {
  title: 'Confirm your email address',
  text: 'This ends all sessions and deletes all API keys and preview links of your account. Confirm the ' +
    'address only if the account is yours.',
  form: '<p><button>Confirm this address</button></p>',
  target: '../auth/email_confirmations',
  done: 'Your email address is confirmed. You can sign in now.'
}

const STYLE = `:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
main { max-width: 28rem; margin: 10vh auto; padding: 0 1rem }
label { display: block }
input, button { box-sizing: border-box; width: 100%; padding: .5rem; font: inherit }
`

const SCRIPT = `const form = document.querySelector('form')
const message = document.querySelector('#message')
const next = document.querySelector('#next')
const token = new URLSearchParams(location.hash.slice(1)).get('token')
// Nobody can copy or read the token from the address bar or the history.
history.replaceState(null, '', location.pathname)
// Another link to the same page, opened in this tab.
addEventListener('hashchange', () => location.reload())

function show (...sentences) {
  message.replaceChildren(...sentences.map((sentence) => {
    const paragraph = document.createElement('p')
    paragraph.textContent = sentence
    return paragraph
  }))
}

async function send () {
  const body = JSON.stringify({ token, ...Object.fromEntries(new FormData(form)) })
  const response = await fetch(form.dataset.target, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body
  })
  if (!response.ok) return show(...(await response.json()).errors)
  form.remove()
  show(form.dataset.done)
  if (next !== null) next.hidden = false
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  const button = form.querySelector('button')
  button.disabled = true
  show()
  await send().catch(() => show('The service can\\'t be reached. Try again.'))
  button.disabled = false
})

if (token === null) {
  show('This link is not complete, or the page was loaded again. Open the link in the mail once more.')
} else form.hidden = false
`

/** The pages load only their own files, and send only to the service. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'"

/** The pages behind the links in mails. None of their requests changes anything. */
export const linkPageRoutes: FastifyPluginAsync = async (app) => {
  const html = (content: Page) => ['text/html', page(content, app.config.CONSOLE)] as const
  const files = {
    [LINK_PAGES.password_reset]: html(RESET_PASSWORD),
    [LINK_PAGES.email_confirmation]: html(CONFIRM_EMAIL),
    '/account/page.css': ['text/css', STYLE],
    '/account/page.js': ['text/javascript', SCRIPT]
  } as const
  for (const [path, [type, content]] of Object.entries(files)) {
    app.get(
      path,
      async (_request, reply) =>
        await reply.type(`${type}; charset=utf-8`).header('content-security-policy', PAGE_POLICY)
          .send(content)
    )
  }
}
