import { Type } from '@sinclair/typebox'
import { ErrorBody } from '../schemas.ts'

const User = Type.Object({ id: Type.Integer(), email: Type.String() })
const Tokens = { access_token: Type.String(), refresh_token: Type.String() }
const UserWithTokens = Type.Object({ user: User, ...Tokens })
const RefreshBody = Type.Object({ refresh_token: Type.String() })
const Credentials = { email: Type.String({ maxLength: 254 }), password: Type.String({ minLength: 8, maxLength: 256 }) }

export const signUpSchema = {
  summary: 'Create an account',
  body: Type.Object({ user: Type.Object({ ...Credentials, password_confirmation: Type.String() }) }),
  response: { 201: UserWithTokens, '4xx': ErrorBody, '5xx': ErrorBody }
}
export const signInSchema = {
  summary: 'Sign in',
  body: Type.Object({ user: Type.Object(Credentials) }),
  response: { 200: UserWithTokens, '4xx': ErrorBody, '5xx': ErrorBody }
}
export const refreshSchema = {
  summary: 'Exchange a refresh token for a new pair of tokens',
  body: RefreshBody,
  response: { 200: Type.Object(Tokens), '4xx': ErrorBody, '5xx': ErrorBody }
}
export const meSchema = {
  summary: 'Whose access token this is',
  security: [{ bearer: [] }],
  response: { 200: Type.Object({ user: User }), '4xx': ErrorBody, '5xx': ErrorBody }
}
export const signOutSchema = {
  summary: 'Revoke the access token and the refresh token, and with them their sessions',
  security: [{ bearer: [] }],
  body: RefreshBody,
  response: { 204: Type.Null(), '4xx': ErrorBody, '5xx': ErrorBody }
}
