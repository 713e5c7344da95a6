import fc from 'fast-check'
import t from 'tap'
import { RangeMaximum } from '../../../../src/modules/landing-pages/patch/range-maximum.ts'

t.test('the largest number of each range is found', async () => {
  fc.assert(fc.property(fc.array(fc.nat(100), { maxLength: 40 }), (numbers) => {
    const maxima = new RangeMaximum(numbers.length, (index) => numbers[index] as number)
    for (let from = 0; from <= numbers.length; from++) {
      for (let to = from; to <= numbers.length; to++) {
        if (maxima.find(from, to) !== Math.max(0, ...numbers.slice(from, to))) return false
      }
    }
    return true
  }))
})
