import { Type } from '@sinclair/typebox'
import { answer, bearer, BODY_ERRORS, errors, NO_JSON, nothing } from '../schemas.ts'

const TOKEN = { access_token: 'eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', refresh_token: 'w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM' }
const EXAMPLE = { email: 'you@example.com', password: 'correct horse' }

const User = Type.Object({
  id: Type.Integer({ minimum: 1, examples: [1] }),
  email: Type.String({ description: 'Trimmed, in lower case', examples: [EXAMPLE.email] })
}, { title: 'User' })
const tokenFields = {
  access_token: Type.String({ description: 'For the header `Authorization: Bearer …`; 15 minutes unless the service is set otherwise', examples: [TOKEN.access_token] }),
  refresh_token: Type.String({ description: 'For one use at `/auth/refresh`, or to sign out with; 30 days unless the service is set otherwise', examples: [TOKEN.refresh_token] })
}
const Tokens = Type.Object(tokenFields, { title: 'Tokens' })
const UserWithTokens = Type.Object({ user: User, ...tokenFields }, { title: 'UserWithTokens' })
const CurrentUser = Type.Object({ user: User }, { title: 'CurrentUser' })
const RefreshBody = Type.Object({ refresh_token: Type.String({ description: 'The one that was given out last' }) }, { title: 'RefreshToken', examples: [{ refresh_token: TOKEN.refresh_token }] })

const email = Type.String({ description: 'Compared without case and surrounding space; at most 254 characters' })
const SignUp = Type.Object({
  user: Type.Object({
    email,
    password: Type.String({ minLength: 8, maxLength: 256, description: 'Not the email address, and not one of the commonest passwords' }),
    password_confirmation: Type.String({ description: 'The password once more' })
  })
}, { title: 'SignUp', examples: [{ user: { ...EXAMPLE, password_confirmation: EXAMPLE.password } }] })
const SignIn = Type.Object({ user: Type.Object({ email, password: Type.String() }) }, { title: 'SignIn', examples: [{ user: EXAMPLE }] })

const tags = ['Accounts']

export const signUpSchema = {
  operationId: 'signUp',
  tags,
  summary: 'Create an account',
  description: 'The answer signs in, too. 60 a minute from one client address.',
  body: SignUp,
  response: { 201: answer(UserWithTokens, 'The account, and the tokens of its first session'), ...errors([...BODY_ERRORS, 422, 429, 500, 503], [], { ...NO_JSON, 422: 'Email has already been taken' }) }
}
export const signInSchema = {
  operationId: 'signIn',
  tags,
  summary: 'Sign in',
  description: 'Opens a session of its own, beside those that there are. Failures are counted: 10 for one account in 15 minutes and 30 from one client address in a minute are followed by a 429.',
  body: SignIn,
  response: { 200: answer(UserWithTokens, 'The account, and the tokens of a new session'), ...errors([...BODY_ERRORS, 401, 429, 500, 503], [], { ...NO_JSON, 401: 'Invalid email or password' }) }
}
export const refreshSchema = {
  operationId: 'refresh',
  tags,
  summary: 'Exchange a refresh token for a new pair of tokens',
  description: 'A refresh token works once. Of several uses at the same time one gets new tokens; a use that comes more than 10 seconds after the first one ends the session, because somebody else may have the token. So refresh once at a time, and keep the answer.',
  body: RefreshBody,
  response: { 200: answer(Tokens, 'The next tokens of the session'), ...errors([...BODY_ERRORS, 401, 429, 500, 503], [], { ...NO_JSON, 401: 'Invalid or expired refresh token' }) }
}
export const meSchema = {
  operationId: 'me',
  tags,
  summary: 'Whose access token this is',
  security: bearer,
  response: { 200: answer(CurrentUser, 'The account'), ...errors([400, 401, 500, 503]) }
}
export const signOutSchema = {
  operationId: 'signOut',
  tags,
  summary: 'Sign out',
  description: 'Revokes the access token and the refresh token, and with them their sessions, on all replicas at once. A refresh token that is missing, spent or not the own one is a 401, and nothing is revoked.',
  security: bearer,
  body: RefreshBody,
  response: { 204: nothing('Signed out'), ...errors([...BODY_ERRORS, 401, 500, 503], [], NO_JSON) }
}
