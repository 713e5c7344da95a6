import t from 'tap'
import { SingleFlight } from '../../../src/infra/system/single-flight.ts'

t.test('concurrent callers of a key share one execution', async (t) => {
  const flights = new SingleFlight<number>()
  let runs = 0
  const task = async () => ++runs
  t.same(await Promise.all([flights.run('a', task), flights.run('a', task), flights.run('b', task)]), [
    1,
    1,
    2
  ])
  t.equal(flights.has('a'), false)
  t.equal(await flights.run('a', task), 3)
})

t.test('a failure reaches every caller, and the next call runs again', async (t) => {
  const flights = new SingleFlight<number>()
  const failing = async () => {
    throw new Error('away')
  }
  const results = await Promise.allSettled([flights.run('a', failing), flights.run('a', failing)])
  t.same(results.map(({ status }) => status), ['rejected', 'rejected'])
  t.equal(await flights.run('a', async () => 1), 1)
})

t.test('a caller does not join a flight that was forgotten', async (t) => {
  const flights = new SingleFlight<string>()
  let finish: (value: string) => void = () => {}
  const first = flights.run('a', async (flight) => {
    const value = await new Promise<string>((resolve) => {
      finish = resolve
    })
    return flight.isForgotten ? `${value}, forgotten` : value
  })
  await Promise.resolve()
  flights.forget('a')
  const second = flights.run('a', async () => 'second')
  finish('first')
  t.equal(await second, 'second')
  t.equal(await first, 'first, forgotten')
})
