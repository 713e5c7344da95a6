// The public interface of the module.

export { default as accountMetrics } from './account-metrics.ts'
export { accountSettingsRoutes } from './account-settings.ts'
export { apiKeyRoutes } from './api-keys/routes.ts'
export { default as authenticate, confirmCaller, findBearer, requireAccess, requireConfirmedEmail,
  requireSession, runInTurn, type Author, type Caller } from './authenticate.ts'
export { normalizeEmail } from './mail/email-addresses.ts'
export { linkPageRoutes } from './mail/link-pages.ts'
export { default as mail } from './mail/sender.ts'
export { queueNotice } from './mail/queue-repository.ts'
export { checkNewAccount, checkNewPassword } from './new-credentials.ts'
export { default as credentialCheck } from './passwords/credential-check.ts'
export { default as passwords, Passwords } from './passwords/passwords.ts'
export { passwordRoutes } from './passwords/routes.ts'
export { addressKey } from './request-limits.ts'
export { revokeAccess, setPassword, signOutEverywhere, type EndedSessions } from './revocation-repository.ts'
export { authRoutes } from './routes.ts'
export { browserSessionRoutes } from './sessions/browser-session.ts'
export { sessionRoutes } from './sessions/routes.ts'
export { createUser, deletedEmail, findUser, IS_BEING_DELETED, listAccounts, lockAccount, operatorOf,
  ownerSql, type AccountSummary, type Authority } from './user-repository.ts'
