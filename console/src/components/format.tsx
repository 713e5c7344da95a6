import { useEffect, useState } from 'preact/hooks'

const { hourCycle } = new Intl.DateTimeFormat(navigator.language, { hour: 'numeric' }).resolvedOptions()
/** The language of the page, for numbers and dates, too. The clock has 12 or 24 hours as in the browser. */
export const LANGUAGE = `en-u-hc-${hourCycle}`

const UNITS = ['bytes', 'KB', 'MB', 'GB']
const number = new Intl.NumberFormat(LANGUAGE)

/** Returns a number such as `1,234`. */
export const formatNumber = (value: number): string => number.format(value)

/** Returns a size such as `1.4 MB`. */
export function formatBytes (bytes: number): string {
  let unit = 0
  let size = bytes
  for (; size >= 1024 && unit < UNITS.length - 1; unit++) size /= 1024
  const digits = unit === 0 || size >= 100 ? 0 : 1
  return `${size.toLocaleString(LANGUAGE, { maximumFractionDigits: digits })} ${
    bytes === 1 ? 'byte' : UNITS[unit]
  }`
}

const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, seconds: number])[] = [
  ['year', 31_536_000],
  [
    'month',
    2_592_000
  ],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60]
]
const relativeTime = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: 'auto' })
const exactTime = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'full', timeStyle: 'long' })
const day = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium' })
const moment = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short' })
const REFRESH_MS = 30_000

/** Returns a time such as `2 hours ago`. */
function formatRelative (time: Date): string {
  const seconds = (time.getTime() - Date.now()) / 1000
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return relativeTime.format(Math.trunc(seconds / length), unit)
  }
  return 'just now'
}

/** A time in words, with the exact time in the zone of the browser on hover. */
export function Time ({ at }: { readonly at: string }) {
  const [, setTick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), REFRESH_MS)
    return () => clearInterval(timer)
  }, [])
  const time = new Date(at)
  return <time dateTime={at} title={exactTime.format(time)}>{formatRelative(time)}</time>
}

/** A day, with the exact time in the zone of the browser on hover. */
export function Day ({ at }: { readonly at: string }) {
  const time = new Date(at)
  return <time dateTime={at} title={exactTime.format(time)}>{day.format(time)}</time>
}

/** A day and a time, with the exact time in the zone of the browser on hover. */
export function Moment ({ at }: { readonly at: string }) {
  const time = new Date(at)
  return <time dateTime={at} title={exactTime.format(time)}>{moment.format(time)}</time>
}
