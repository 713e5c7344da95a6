import { useUser } from '../../core/session.ts'

/** Tells password managers to which account the password of a form belongs. People don't see it. */
export function UsernameForManagers () {
  const { email } = useUser()
  return <input type='text' autocomplete='username' value={email} readOnly hidden />
}
