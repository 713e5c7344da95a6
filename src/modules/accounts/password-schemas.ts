import { Type } from '@sinclair/typebox'
import { bearer, BODY_ERRORS, errors, MALFORMED_JSON, nothing } from '../../http/schemas.ts'
import { EXAMPLE, newPasswordFields, NEW_PASSWORD_EXAMPLE, TOO_MANY_FAILURES } from './schemas.ts'

const ChangePasswordBody = Type.Object({
  current_password: Type.String({ minLength: 1 }),
  ...newPasswordFields
}, {
  title: 'ChangePassword',
  examples: [{
    current_password: EXAMPLE.password,
    ...NEW_PASSWORD_EXAMPLE
  }]
})

export const changePasswordSchema = {
  operationId: 'changePassword',
  tags: ['Accounts'],
  summary: 'Change the password',
  description:
    'Ends all other sessions of the account and all links that reset its password, and deletes its API keys. Wrong passwords count as failed sign-ins.',
  security: bearer,
  body: ChangePasswordBody,
  response: {
    204: nothing('The password is changed'),
    ...errors([...BODY_ERRORS, 401, 422, 429, 500, 503], [], {
      ...MALFORMED_JSON,
      ...TOO_MANY_FAILURES,
      422: 'Current password is wrong'
    })
  }
}
