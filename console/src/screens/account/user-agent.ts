// Names that people know, for what browsers call themselves. Most also name others, so the order counts.

const PROGRAMS = [
  [/\bEdg\w*\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [
    /Chrome\/|\bCriOS\//,
    'Chrome'
  ],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl']
] as const
const SYSTEMS = [
  [/\bWindows\b/, 'Windows'],
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iPhone'],
  [
    /\biPad\b/,
    'iPad'
  ],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux']
] as const

/** Returns what a session was last used with, such as `Firefox on Windows`. */
export function nameUserAgent (userAgent: string | null): string {
  if (userAgent === null) return 'Unknown program'
  const [, program] = PROGRAMS.find(([pattern]) => pattern.test(userAgent)) ?? []
  const [, system] = SYSTEMS.find(([pattern]) => pattern.test(userAgent)) ?? []
  if (program === undefined) return userAgent
  return system === undefined ? program : `${program} on ${system}`
}
