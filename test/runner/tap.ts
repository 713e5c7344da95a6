import root, { type Test } from 'tap'

// compile.ts replaces imports of tap in test files by this module, which exports the test that represents the
// file. So one process can run several files with separate results.

let current: Test = root
let wanted: RegExp | undefined

/** Begins a file: `test` becomes the parent of all tests that are defined from now on. */
export function beginFile (test: Test): void {
  current = test
  wanted = undefined
}

/** Skips tests of this file whose names don't match, if they are defined after this call. */
export function runOnly (names: RegExp): void {
  wanted = names
}

export default new Proxy(root, {
  get (_, name) {
    const value: unknown = Reflect.get(current, name, current)
    if (name === 'test' && wanted !== undefined) {
      const names = wanted
      return (title: string, ...rest: [never]) => names.test(title) ? current.test(title, ...rest) : undefined
    }
    return typeof value === 'function' ? value.bind(current) : value
  },
  // Such as `t.jobs`: how many tests of the file run at once.
  set: (_, name, value) => Reflect.set(current, name, value)
})
