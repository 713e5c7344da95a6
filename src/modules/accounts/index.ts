// The public interface of the module.

export { default as accountMetrics } from './account-metrics.ts'
export { addressKey } from './address-limits.ts'
export { endAccess } from './access-ending.ts'
export { requireAccess } from './access.ts'
export { apiKeyRoutes } from './api-keys/routes.ts'
export { default as authenticate, confirmCaller, requireSession, type Author,
  type Caller } from './authenticate.ts'
export { browserSessionRoutes } from './browser-session.ts'
export { default as credentialCheck } from './credential-check.ts'
export { normalizeEmail } from './credentials.ts'
export { beginDeletion, beginOwnDeletion, deleteUser, findBegunDeletions, IS_BEING_DELETED,
  ownerSql } from './deletion-repository.ts'
export { linkPageRoutes } from './mail/page-routes.ts'
export { default as mail } from './mail/plugin.ts'
export { checkNewAccount, checkNewPassword } from './new-credentials.ts'
export { setPassword } from './password-changes.ts'
export { default as passwords, Passwords } from './passwords.ts'
export { passwordRoutes } from './password-routes.ts'
export { authRoutes } from './routes.ts'
export { sessionRoutes } from './session-routes.ts'
export { signOutEverywhere, type EndedSessions } from './session-repository.ts'
export { createUser, findUser, listAccounts, type AccountSummary } from './user-repository.ts'
