import { LandfallError } from '@landfall/client'
import { useEffect, useState } from 'preact/hooks'
import { UpdatedError } from '../core/load-part.ts'
import { hasUnsaved } from '../core/router.ts'
import { Button } from './button.tsx'

/** Sentences of the service that name fields otherwise than the forms do, in the words of the forms. */
const WORDS: Readonly<Record<string, string>> = {
  "Events can't be blank": 'Choose at least one event.',
  "Pages can't be blank": 'Choose at least one page.',
  "Scopes can't be blank": 'Choose at least one thing that the key may do.',
  'A page can have 20 preview links: delete one that is not needed any more':
    'A page can have 20 preview links. Revoke one that is not needed any more.',
  'Current password is wrong': 'Your current password is wrong.',
  'Password is wrong': 'Your current password is wrong.',
  'Confirm your email address first: POST /auth/email_confirmations mails another link':
    'Confirm your address first: open the link in the mail to you. Until then you can read, but not change ' +
    'anything.',
  "Password confirmation doesn't match Password": 'The two passwords are not the same.'
}

/** Returns a sentence of the service in the words of the forms. */
export const inOwnWords = (sentence: string): string => WORDS[sentence] ?? sentence.replace(/^Url /, 'URL ')

interface ErrorNoticeProps {
  /** Nothing is shown without an error. */
  readonly error: unknown
  /** Repeats what failed: at once when the person asks for it, and when the service said to try again. */
  readonly onRetry?: () => void
  /** Whether to call `onRetry` without a click. Only for reads. */
  readonly retriesItself?: boolean
  /** Whether a sign-in failed. Its 401 says that the password is wrong, not that a session has ended. */
  readonly isSignIn?: boolean
}

/** Tells what went wrong, and what to do next. */
export function ErrorNotice (
  { error, onRetry, retriesItself = false, isSignIn = false }: ErrorNoticeProps
) {
  const waitSeconds = error instanceof LandfallError ? error.retryAfterSeconds : undefined
  const left = useCountdown(error, waitSeconds, retriesItself ? onRetry : undefined)
  useRetryWhenOnline(error, retriesItself ? onRetry : undefined)
  if (error === undefined) return null
  return (
    <div class='notice notice--error' role='alert'>
      {sentencesOf(error, isSignIn).map((sentence) => <p key={sentence}>{sentence}</p>)}
      {left !== undefined && left > 0 && (
        <p>
          {retriesItself ? 'Trying again' : 'You can try again'} in{' '}
          <span role='timer' aria-live='off'>{left} s</span>.
        </p>
      )}
      {error instanceof UpdatedError && (
        <>
          {hasUnsaved() && <p>What you have not saved would be lost. Save or copy it first.</p>}
          <Button kind='quiet' onClick={() => location.reload()}>Reload this page</Button>
        </>
      )}
      {onRetry !== undefined && !(error instanceof UpdatedError) && (
        <Button kind='quiet' onClick={onRetry} isDisabled={!retriesItself && left !== undefined && left > 0}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** Returns sentences that tell a person what went wrong. */
export function sentencesOf (error: unknown, isSignIn = false): readonly string[] {
  if (error instanceof LandfallError) {
    const { status, requestId } = error
    const errors = error.errors.map(inOwnWords)
    if (status === 401 && !isSignIn) {
      return ['Your session has ended. Sign in, and then do this again.']
    }
    return status >= 500 && requestId !== undefined && !errors.some((text) => text.includes(requestId))
      ? [...errors, `The id of the request is ${requestId}.`] : errors
  }
  // fetch() rejects with a TypeError when there is no response; each browser has its own words.
  if (error instanceof TypeError) {
    if (!navigator.onLine) return ['You are offline.']
    return /fetch|network|load/i.test(error.message) ? ['The service can’t be reached.']
      : ['This did not work. Reload the page and try again.']
  }
  return [error instanceof Error ? error.message : String(error)]
}

/** Returns the seconds that are left of a wait that began with the error. */
function useCountdown (error: unknown, seconds: number | undefined, onEnd?: () => void): number | undefined {
  const [left, setLeft] = useState(seconds)
  useEffect(() => {
    setLeft(seconds)
    if (seconds === undefined) return
    const end = Date.now() + seconds * 1000
    const timer = setInterval(() => {
      const rest = Math.max(0, Math.ceil((end - Date.now()) / 1000))
      setLeft(rest)
      if (rest > 0) return
      clearInterval(timer)
      onEnd?.()
    }, 250)
    return () => clearInterval(timer)
  }, [error])
  return left
}

function useRetryWhenOnline (error: unknown, retry?: () => void): void {
  useEffect(() => {
    if (!(error instanceof TypeError) || retry === undefined) return
    addEventListener('online', retry)
    return () => removeEventListener('online', retry)
  }, [error])
}
