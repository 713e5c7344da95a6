// Sets the clock of a process wrong by TEST_CLOCK_MS. Tests load this file with `node --import`.

const shift = Number(process.env.TEST_CLOCK_MS)
const RealDate = Date

globalThis.Date = class extends RealDate {
  constructor (...values) {
    if (values.length === 0) super(RealDate.now() + shift)
    else super(...values)
  }

  static now () {
    return RealDate.now() + shift
  }
}
