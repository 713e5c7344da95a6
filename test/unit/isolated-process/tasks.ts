import { setTimeout as sleep } from 'node:timers/promises'
import { serveTasks } from '../../../src/infra/isolated-process/serve-tasks.ts'

// A script for a child process: tasks that response, and tasks that go wrong.

serveTasks({
  pid: () => ({ result: process.pid }),
  environment: () => ({ result: Object.keys(process.env) }),
  reverse: (suffix: string, input) => ({
    result: input.length,
    output: Buffer.from([...input.reverse(), ...Buffer.from(suffix)])
  }),
  fail: () => {
    throw new Error('a fault of the program')
  },
  async hang () {
    await sleep(60_000)
    return { result: 'late' }
  },
  loop: () => {
    for (;;);
  },
  fill: () => {
    const all: string[][] = []
    for (;;) all.push(Array.from({ length: 1000 }, (_, index) => `${index} ${all.length}`))
  }
})
