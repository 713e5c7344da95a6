import { useId, useState } from 'preact/hooks'
import { LANGUAGE } from './format.tsx'

const MINUTE_MS = 60_000

const local = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'full', timeStyle: 'short' })
const utc = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
const offset = new Intl.DateTimeFormat(LANGUAGE, { timeZoneName: 'longOffset' })

/** Returns the offset in force then, such as `UTC+01:00`. */
const offsetOf = (time: Date): string =>
  (offset.formatToParts(time).find(({ type }) => type === 'timeZoneName')?.value ?? '').replace('GMT', 'UTC')

const isUtc = (time: Date): boolean => ['UTC', 'UTC+00:00'].includes(offsetOf(time))

/** Returns the value that an input shows for a time, in the zone of the browser. */
const inputOf = (time: Date): string =>
  new Date(time.getTime() - time.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 16)

/** Whether the clock is put back after this time, so that it shows the same hour and minute again. */
const isTwice = (time: Date): boolean => inputOf(new Date(time.getTime() + 60 * MINUTE_MS)) === inputOf(time)

/** Returns a time such as `Thursday, December 3, 2026 at 9:00 AM (UTC+01:00, Europe/Berlin)`. */
export const describeLocally = (time: Date): string =>
  `${local.format(time)} (${offsetOf(time)}, ${local.resolvedOptions().timeZone})`

interface DateTimeFieldProps {
  readonly label: string
  readonly value: Date | undefined
  readonly onInput: (value: Date | undefined) => void
}

/** An input of a time in the zone of the browser. Below it, the time is written in full, and in UTC. */
export function DateTimeField ({ label, value, onInput }: DateTimeFieldProps) {
  const id = useId()
  // A year that is being typed must not be rewritten.
  const [text, setText] = useState(value === undefined ? '' : inputOf(value))
  return (
    <div class='field'>
      <label class='field__label' for={id}>{label}</label>
      <input
        class='field__input'
        id={id}
        type='datetime-local'
        min={inputOf(new Date())}
        value={text}
        aria-describedby={`${id}-hint`}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          const time = new Date(currentTarget.value)
          onInput(Number.isNaN(time.getTime()) ? undefined : time)
        }}
      />
      <p class='field__hint' id={`${id}-hint`}>
        {value === undefined ? 'Empty: never.' : (
          <>
            {describeLocally(value)}
            {text !== '' && text !== inputOf(value) &&
              `, because the clock skips ${text.slice(11)} on that day`}
            {isTwice(value) && ', the first of the two times that the clock shows this hour'}
            {!isUtc(value) && (
              <>
                <br />In UTC: {utc.format(value)}
              </>
            )}
          </>
        )}
      </p>
    </div>
  )
}
