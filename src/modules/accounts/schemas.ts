import { Type } from '@sinclair/typebox'
import { recordOf } from '../../http/responses.ts'
import { nullableTime } from '../../http/schemas.ts'
import { checkEmail, EMAIL_MAX, normalizeEmail } from './mail/email-addresses.ts'
import { checkPassword, normalizePassword, PASSWORD_MAX, PASSWORD_MIN } from './passwords/passwords.ts'
import type { User as UserRow } from './user-repository.ts'

export const EXAMPLE_TOKENS = {
  access_token: 'eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
  refresh_token: 'w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM'
}
export const EXAMPLE = { email: 'you@example.com', password: 'correct horse' }

export const User = Type.Object({
  id: Type.Integer({ minimum: 1, examples: [1] }),
  email: Type.String({
    description: 'The email address, trimmed and in lower case',
    examples: [EXAMPLE.email]
  }),
  email_confirmed_at: nullableTime('When the user confirmed to receive mail at the address; null before')
}, { title: 'User' })

/** Returns the `user` of a response. */
export const userRecord = (
  { id, email, emailConfirmedAt }: Pick<UserRow, 'id' | 'email' | 'emailConfirmedAt'>
) => recordOf({ id, email, emailConfirmedAt })

export const AccessToken = Type.String({
  description: 'Send it as `Authorization: Bearer …`. It expires after 15 minutes by default.',
  examples: [EXAMPLE_TOKENS.access_token]
})
export const CurrentUser = Type.Object({ user: User }, { title: 'CurrentUser' })
export const RefreshBody = Type.Object({
  refresh_token: Type.String({ description: 'The latest refresh token of the session' })
}, { title: 'RefreshToken', examples: [{ refresh_token: EXAMPLE_TOKENS.refresh_token }] })

const newPassword = Type.String({
  minLength: PASSWORD_MIN,
  maxLength: PASSWORD_MAX,
  normalize: normalizePassword,
  check: checkPassword,
  description: 'Must not be the email address or one of the most common passwords'
})
/** For a password from the command line. */
export const NewPassword = Type.Object({ password: newPassword })

/** The message of a 429 for wrong passwords. */
export const TOO_MANY_FAILURES = { 429: 'Too many failed sign-ins, try again in 34 seconds' } as const

export const newPasswordFields = {
  password: newPassword,
  password_confirmation: Type.String({ normalize: normalizePassword, description: 'The password, repeated' })
}

const NEW_PASSWORD = 'staple battery'
export const NEW_PASSWORD_EXAMPLE = { password: NEW_PASSWORD, password_confirmation: NEW_PASSWORD }

export const SignUpBody = Type.Object({
  user: Type.Object({
    email: Type.String({
      minLength: 1,
      maxLength: EMAIL_MAX,
      normalize: normalizeEmail,
      check: checkEmail,
      description:
        'At most 254 characters. White space around the address is removed, and case is ignored. Quoted ' +
        'local parts are refused, and so are characters that mail programs read as others, such as ' +
        'full-width letters.'
    }),
    ...newPasswordFields
  })
}, { title: 'SignUp', examples: [{ user: { ...EXAMPLE, password_confirmation: EXAMPLE.password } }] })

/** The message for a link that is unknown, expired or used. */
export const INVALID_LINK = 'Link is invalid or has expired: ask for a new one'
export const EXAMPLE_LINK_TOKEN = 'Zk1yV0c0bUxvUjhxTjV0SjJ4QjdzWjR1TmZFOGFHZDE'
export const LinkToken = Type.String({
  minLength: 1,
  description: 'What follows `#token=` in the link of the mail'
})
