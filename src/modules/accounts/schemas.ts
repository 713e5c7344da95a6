import { Type } from '@sinclair/typebox'
import { checkEmail, checkPassword, EMAIL_MAX, normalizeEmail, normalizePassword, PASSWORD_MAX,
  PASSWORD_MIN } from './credentials.ts'
import type { User as UserRow } from './user-repository.ts'
import { answer, BODY_ERRORS, errors, MALFORMED_JSON, NO_PARAMETERS } from '../../http/schemas.ts'

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
  email_confirmed_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
    description: 'When the user confirmed to receive mail at the address; null before'
  })
}, { title: 'User' })

/** Returns the `user` of an answer. */
export const userRecord = (
  { id, email, emailConfirmedAt }: Pick<UserRow, 'id' | 'email' | 'emailConfirmedAt'>
) => ({ id, email, email_confirmed_at: emailConfirmedAt?.toISOString() ?? null })

export const AccessToken = Type.String({
  description: 'Send it as `Authorization: Bearer …`. It expires after 15 minutes by default.',
  examples: [EXAMPLE_TOKENS.access_token]
})
const tokenFields = {
  access_token: AccessToken,
  refresh_token: Type.String({
    description:
      'Exchange it once at `/auth/refresh`, or send it to sign out. It expires after 30 days by default.',
    examples: [EXAMPLE_TOKENS.refresh_token]
  })
}
const Tokens = Type.Object(tokenFields, { title: 'Tokens' })
const UserWithTokens = Type.Object({ user: User, ...tokenFields }, { title: 'UserWithTokens' })
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

/** The fields of a new password. */
export const newPasswordFields = {
  password: newPassword,
  password_confirmation: Type.String({
    normalize: normalizePassword,
    description: 'The password, repeated'
  })
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
        'At most 254 characters. White space around the address is removed, and case is ignored. Quoted local parts are refused, and so are characters that mail programs read as others, such as full-width letters.'
    }),
    ...newPasswordFields
  })
}, { title: 'SignUp', examples: [{ user: { ...EXAMPLE, password_confirmation: EXAMPLE.password } }] })

const SIGN_IN_EXAMPLE = { user: EXAMPLE }
const SignInBody = Type.Object({
  user: Type.Object({
    email: Type.String({ normalize: normalizeEmail, description: 'Case is ignored' }),
    password: Type.String()
  })
}, { title: 'SignIn', examples: [SIGN_IN_EXAMPLE] })

const tags = ['Accounts']

export const signUpSchema = {
  operationId: 'signUp',
  tags,
  summary: 'Create an account',
  description:
    'Also signs in: the response contains the tokens of the first session. By default, a client address may send 60 of these requests a minute. With `SIGN_UP=closed`, the response is a 403.',
  body: SignUpBody,
  response: {
    201: answer(UserWithTokens, 'The account, and the tokens of its first session', 'Location'),
    ...errors([...BODY_ERRORS, 403, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      403: 'Sign-up is closed; ask the operator of this service for an account',
      422: 'Email has already been taken'
    })
  }
}
export const signInSchema = {
  operationId: 'signIn',
  tags,
  summary: 'Sign in',
  description:
    'Starts a new session; existing sessions stay valid. By default, the service responds with a 429 after 10 failures for one account in 15 minutes, or 30 failures from one client address in a minute.',
  body: SignInBody,
  response: {
    200: answer(UserWithTokens, 'The account, and the tokens of a new session'),
    ...errors([...BODY_ERRORS, 401, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      401: 'Invalid email or password',
      ...TOO_MANY_FAILURES,
      422: `Request body must look like ${JSON.stringify(SIGN_IN_EXAMPLE)}`
    })
  }
}
export const refreshSchema = {
  operationId: 'refresh',
  tags,
  summary: 'Exchange a refresh token for a new pair of tokens',
  description:
    'A refresh token can be used once. If it is sent several times at once, one request gets new tokens and the others get a 401. If it is sent again more than 10 seconds after its first use, the session ends, because the token may have been stolen. So send one refresh at a time, and store the new tokens.',
  body: RefreshBody,
  response: {
    200: answer(Tokens, 'The next tokens of the session'),
    ...errors([...BODY_ERRORS, 401, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      ...NO_PARAMETERS,
      401: 'Invalid or expired refresh token'
    })
  }
}
