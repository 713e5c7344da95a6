import { Type } from '@sinclair/typebox'
import { answer, BODY_ERRORS, errors, MALFORMED_JSON, NO_PARAMETERS, nothing } from '../../http/schemas.ts'
import { AccessToken, EXAMPLE_TOKENS, User } from './schemas.ts'

const tags = ['Accounts']
const ORIGIN =
  'Only pages of the service itself may send this request: its `Origin` must be that of `BASE_URL` or of the host that it is sent to.'

const FOREIGN_ORIGIN =
  'Only pages of this service may use the session of a browser; open it at https://landfall.example.com'

/** A refused cookie is deleted, or about to be replaced. */
const REFUSED = errors([401], ['Set-Cookie?', 'Retry-After?'], { 401: 'Invalid or expired refresh token' })

const BrowserSession = Type.Object({
  access_token: AccessToken,
  user: User
}, { title: 'BrowserSession' })

export const renewBrowserSessionSchema = {
  operationId: 'renewBrowserSession',
  tags,
  summary: 'Keep the session of a browser in a cookie',
  description:
    `Exchanges a refresh token for the next one, which it sets as a cookie that scripts can't read: that of the body after a sign-in, and from then on that of the cookie. A refresh token can be used once, and a replay ends the session, as with \`/auth/refresh\`. A refused cookie is deleted. If another request has renewed it less than 10 seconds ago, it is not, and the 401 has a \`Retry-After\`: by then the browser has the next cookie. ${ORIGIN}`,
  body: Type.Union([
    Type.Object({
      refresh_token: Type.Optional(Type.String({
        description: 'The refresh token of a sign-in; without it, that of the cookie is used'
      }))
    }, { title: 'BrowserSessionFields' }),
    Type.Null()
  ], { examples: [{ refresh_token: EXAMPLE_TOKENS.refresh_token }] }),
  response: {
    200: answer(BrowserSession, 'A new access token, and the account', 'Set-Cookie'),
    ...REFUSED,
    ...errors([...BODY_ERRORS, 403, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      ...NO_PARAMETERS,
      403: FOREIGN_ORIGIN
    })
  }
}

export const endBrowserSessionSchema = {
  operationId: 'endBrowserSession',
  tags,
  summary: 'Sign a browser out',
  description:
    `Ends the session of the cookie immediately, on all replicas, and deletes the cookie. ${ORIGIN}`,
  response: {
    204: nothing('Signed out', 'Set-Cookie'),
    ...REFUSED,
    ...errors([400, 403, 408, 413, 415, 422, 429, 500, 503], [], { ...NO_PARAMETERS, 403: FOREIGN_ORIGIN })
  }
}
