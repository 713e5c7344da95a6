import { Type } from '@sinclair/typebox'
import { bearer, BODY_ERRORS, errors, MALFORMED_JSON, NO_PARAMETERS, nothing } from '../../../http/schemas.ts'
import { normalizeEmail } from '../credentials.ts'
import { EXAMPLE, newPasswordFields, NEW_PASSWORD_EXAMPLE } from '../schemas.ts'

const tags = ['Accounts']
const TOKEN = 'Zk1yV0c0bUxvUjhxTjV0SjJ4QjdzWjR1TmZFOGFHZDE'

/** The message for a link that is unknown, expired or used. */
export const INVALID_LINK = 'Link is invalid or has expired: ask for a new one'

const token = Type.String({
  minLength: 1,
  description: 'What follows `#token=` in the link of the mail'
})

export const requestResetSchema = {
  operationId: 'requestPasswordReset',
  tags,
  summary: 'Ask for a link that resets the password',
  description:
    'Sends a mail with the link, if there is an account with the address. The response is the same in any case, and takes the same time. The link leads to a page of the service, is valid for an hour and can be used once; a later link replaces it. An address gets at most three of these mails an hour. By default, a client address may send 30 of these requests a minute.',
  body: Type.Object({
    email: Type.String({ normalize: normalizeEmail, description: 'Case is ignored' })
  }, { title: 'RequestPasswordReset', examples: [{ email: EXAMPLE.email }] }),
  response: {
    202: nothing('If there is such an account, a mail is on its way'),
    ...errors([...BODY_ERRORS, 422, 429, 500, 503], [], { ...MALFORMED_JSON, 422: "Email can't be blank" })
  }
}

export const resetPasswordSchema = {
  operationId: 'resetPassword',
  tags,
  summary: 'Choose a new password with the link of a mail',
  description:
    'Confirms the email address, ends all sessions of the account and all links that were mailed before, and deletes its API keys. A link whose new password is refused can be used again.',
  body: Type.Object({ token, ...newPasswordFields }, {
    title: 'ResetPassword',
    examples: [{ token: TOKEN, ...NEW_PASSWORD_EXAMPLE }]
  }),
  response: {
    204: nothing('The password is changed'),
    ...errors([...BODY_ERRORS, 422, 500, 503], [], { ...MALFORMED_JSON, 422: INVALID_LINK })
  }
}

export const requestConfirmationSchema = {
  operationId: 'requestEmailConfirmation',
  tags,
  summary: 'Ask for another link that confirms the email address',
  description:
    'Sign-up sends the first one. The link is valid for an hour and can be used once; a later link replaces it. At most three of these mails are sent in an hour, and none if the address is confirmed; the response is the same in any case.',
  security: bearer,
  response: {
    202: nothing('A mail is on its way, unless the address is confirmed or got three in this hour'),
    ...errors([400, 401, 408, 413, 415, 422, 500, 503], [], NO_PARAMETERS)
  }
}

export const confirmEmailSchema = {
  operationId: 'confirmEmail',
  tags,
  summary: 'Confirm the email address with the link of a mail',
  description:
    'Ends all sessions of the account and deletes its API keys, because somebody else may have signed up with the address. Only the session whose access token is sent stays, if it belongs to the account. The access token is optional, but must be valid.',
  security: [{}, ...bearer],
  body: Type.Object({ token }, { title: 'ConfirmEmail', examples: [{ token: TOKEN }] }),
  response: {
    204: nothing('The address is confirmed'),
    ...errors([...BODY_ERRORS, 401, 422, 500, 503], [], { ...MALFORMED_JSON, 422: INVALID_LINK })
  }
}
