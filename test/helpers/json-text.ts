import fc from 'fast-check'

// Generators of JSON text in every notation: white space, escapes, digits, names.

/** Returns the text with each UTF-16 unit as a \u escape. */
const escape = (text: string): string =>
  Array.from(
    { length: text.length },
    (_, index) => `\\u${text.charCodeAt(index).toString(16).padStart(4, '0')}`
  ).join('')

export const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 })

const special = fc.constantFrom(
  '\\u0000',
  '\\ud800',
  '\\uDFFF\\ud83d',
  '\\/',
  '\\b\\f\\n\\r\\t',
  '\\\\',
  '\\"',
  '\u2028',
  '\u007f',
  '\ufeff',
  '\u{1f600}',
  '\u202e',
  'e\u0301',
  '</script>'
)

/** A character that is written literally, or as an escape where it may or must be. */
const character = fc.tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }), fc.boolean())
  .map(([unit, isEscaped]) =>
    // eslint-disable-next-line no-control-regex
    isEscaped || /[\u0000-\u001f"\\]/.test(unit) || !unit.isWellFormed() ? escape(unit) : unit
  )

/** A string with its quotes. */
export const stringText = fc.array(fc.oneof(special, character), { maxLength: 8 })
  .map((parts) => `"${parts.join('')}"`)

const numberText = fc.tuple(
  fc.constantFrom('', '-'),
  fc.constantFrom('0', '1', '10', '12345678901234567890', '9'.repeat(400)),
  fc.constantFrom('', '.0', '.10', '.000000000000000000001'),
  fc.constantFrom('', 'e400', 'E+2', 'E+02', 'e-7', 'E-0')
)
  .map((parts) => parts.join(''))

const nameText = fc.oneof(
  stringText,
  fc.constantFrom(
    '"__proto__"',
    '"constructor"',
    '"toString"',
    '"current_data"',
    '"landing_page"',
    '"a"',
    '"\\u0061"',
    '""'
  )
)

/** Values, and objects and arrays, with white space in all allowed places. */
export const { value: valueText, container: containerText } = fc.letrec<{ value: string, container: string }>(
  (tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom('null', 'true', 'false'),
      numberText,
      stringText,
      tie('container')
    ),
    container: fc.oneof(
      fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }).map((items) =>
        `[${items.map((item) => item.join('')).join(',')}]`
      ),
      fc.array(fc.tuple(space, nameText, space, space, tie('value'), space), { maxLength: 4 }).map((
        members
      ) => `{${members.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`).join(',')}}`)
    )
  })
)

/** A value with white space around it. */
export const spacedText = fc.tuple(space, valueText, space).map((parts) => parts.join(''))

/** JSON text in which one character is replaced, removed or inserted: about half of it is still JSON. */
export const almostJson = fc.tuple(
  fc.oneof(spacedText, fc.json({ maxDepth: 4 })),
  fc.nat(),
  fc.constantFrom(0, 1),
  fc.oneof(
    fc.constantFrom(...'{}[],:"\\+-.eE0123456789tfnu \t\n\r\u0000\u001f\u007f\ufeff\'', ''),
    fc.string({ unit: 'binary' })
  )
)
  .map(([text, place, removed, inserted]) => {
    const at = place % (text.length + 1)
    return text.slice(0, at) + inserted + text.slice(at + removed)
  })
