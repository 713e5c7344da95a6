// Exact comparison of JSON numbers. They may have any number of digits and any exponent.

const ZERO = 0x30
const POINT = 0x2e
const MINUS = 0x2d

/** More digits than `shift` can have. */
const MAX_SHIFT_DIGITS = 12

/** A number is `0.digits` times ten to the power `exponent + shift`. Zero has no digits. */
export interface Decimal {
  readonly isNegative: boolean
  /** Without zeros at the start and the end. */
  readonly digits: Buffer
  readonly exponent: string
  readonly shift: number
}

/** Whether two numbers are numerically equal (RFC 6902, 4.6): 1.0 is 1, and -0 is 0. */
export function isSameNumber (a: Decimal, b: Decimal): boolean {
  if (!a.digits.equals(b.digits)) return false
  return a.digits.length === 0 || (a.isNegative === b.isNegative && isSameExponent(a, b))
}

function isSameExponent (a: Decimal, b: Decimal): boolean {
  const lengths = [a.exponent.length, b.exponent.length]
  const longest = Math.max(...lengths)
  // Only exponents of similar length can be equal. Parsing no others bounds the time.
  if (longest > MAX_SHIFT_DIGITS && longest > Math.min(...lengths) + 1) return false
  return BigInt(a.exponent) + BigInt(a.shift) === BigInt(b.exponent) + BigInt(b.shift)
}

/** @param number a JSON number in ASCII */
export function parseNumber (number: Buffer): Decimal {
  const isNegative = number[0] === MINUS
  const start = isNegative ? 1 : 0
  const e = Math.max(number.indexOf('e'), number.indexOf('E'))
  const end = e === -1 ? number.length : e
  const point = number.subarray(start, end).indexOf(POINT)
  const whole = number.subarray(start, point === -1 ? end : start + point)
  const fraction = point === -1 ? NOTHING : number.subarray(start + point + 1, end)
  const all = fraction.length === 0 ? whole : Buffer.concat([whole, fraction])
  let first = 0
  while (all[first] === ZERO) first++
  let last = all.length
  while (last > first && all[last - 1] === ZERO) last--
  return {
    isNegative,
    digits: all.subarray(first, last),
    exponent: e === -1 ? '0' : plainInteger(number.toString('latin1', e + 1)),
    shift: whole.length - first
  }
}

const NOTHING = Buffer.alloc(0)

/** Removes a plus and zeros at the start. */
function plainInteger (text: string): string {
  const sign = text.startsWith('-') ? '-' : ''
  let first = /^[+-]/.test(text) ? 1 : 0
  while (first < text.length - 1 && text[first] === '0') first++
  return sign + text.slice(first)
}
