import type { LinkKind, MailKind } from '../mail-sql.ts'

// The links in mails. The token is in the fragment, which browsers don't send and proxies don't log.

/** The pages to which the links lead, relative to the address of the service. */
export const LINK_PAGES: Readonly<Record<LinkKind, string>> = {
  password_reset: '/account/reset-password',
  email_confirmation: '/account/confirm-email'
}

/** Whether a mail carries a link. */
export const isLinkKind = (kind: MailKind): kind is LinkKind => Object.hasOwn(LINK_PAGES, kind)

/** Returns the link that carries a token. */
export const linkTo = (baseUrl: string, kind: LinkKind, token: string): string =>
  `${baseUrl}${LINK_PAGES[kind]}#token=${token}`
