import { Field } from './field.tsx'

interface CredentialProps {
  readonly value: string
  readonly onInput: (value: string) => void
}

interface EmailFieldProps extends CredentialProps {
  readonly isReadOnly?: boolean
}

/** The address with which a person signs in. */
export function EmailField (props: EmailFieldProps) {
  return <Field label='E-mail address' type='email' autocomplete='username' isRequired {...props} />
}

interface CurrentPasswordFieldProps extends CredentialProps {
  readonly label: string
  /** Whether a dialog that is opened gives it the focus. */
  readonly hasAutofocus?: boolean
}

/** The password that the account has. */
export function CurrentPasswordField (props: CurrentPasswordFieldProps) {
  return <Field type='password' autocomplete='current-password' isRequired {...props} />
}

interface NewPasswordFieldsProps {
  readonly label: string
  readonly password: string
  readonly onPassword: (value: string) => void
  /** The password, typed a second time. */
  readonly confirmation: string
  readonly onConfirmation: (value: string) => void
}

/** A password that is chosen, and the same once more. */
export function NewPasswordFields (
  { label, password, onPassword, confirmation, onConfirmation }: NewPasswordFieldsProps
) {
  const common = { type: 'password', autocomplete: 'new-password', isRequired: true } as const
  return (
    <>
      <Field label={label} hint='At least 8 characters.' value={password} onInput={onPassword} {...common} />
      <Field label={`${label}, repeated`} value={confirmation} onInput={onConfirmation} {...common} />
    </>
  )
}
