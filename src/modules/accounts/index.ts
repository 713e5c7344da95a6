// The public interface of the module.

export { default as accountMetrics } from './account-metrics.ts'
export { addressKey } from './address-limits.ts'
export { default as authenticate, confirmSession, requireSession } from './authenticate.ts'
export { normalizeEmail } from './credentials.ts'
export { checkNewAccount, checkNewPassword } from './new-account.ts'
export { default as passwords, Passwords } from './passwords.ts'
export { authRoutes, sessionRoutes } from './routes.ts'
export { signOutEverywhere, type SignedOut } from './session-repository.ts'
export { setPassword } from './sessions.ts'
export { createUser, deleteUser, findUser, listAccounts, type AccountSummary } from './user-repository.ts'
