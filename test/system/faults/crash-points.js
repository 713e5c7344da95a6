// Stops a service at a chosen step until it is killed, and can set its clocks ahead. Tests load this file
// with `node --import`; crashing-service.ts writes its settings to the file TEST_CONTROL.

import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import promises from 'node:fs/promises'
import http from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { performance } from 'node:perf_hooks'
import { Redis } from 'ioredis'
import pg from 'pg'

const file = process.env.TEST_CONTROL
/** Per connection: its secrets of 32 random bytes, newest last, such as refresh tokens. */
const connections = new AsyncLocalStorage()
let plan = 0
let passed = 0

const control = () => JSON.parse(readFileSync(file, 'utf8'))

/** Counts a step that matches the plan; returns when to stop if it is the chosen one. */
function place (step) {
  const { stop } = control()
  // What the service does by itself, such as the checks of PostgreSQL, comes at any time.
  const isOwn = /^(query|redis) /.test(step) && connections.getStore() === undefined
  if (stop === undefined || (isOwn && !stop.withOwn) || !new RegExp(stop.steps).test(step)) return undefined
  if (stop.number !== plan) [plan, passed] = [stop.number, 0]
  return ++passed === stop.nth ? stop.when : undefined
}

function note (step) {
  const secrets = connections.getStore() ?? []
  writeFileSync(`${file}.new`, JSON.stringify({ step, secrets }))
  renameSync(`${file}.new`, `${file}.stopped`)
}

/**
 * Wraps an asynchronous function so that the process can stop before it, after it, or be killed during it.
 */
function stoppable (target, name, describe) {
  const original = target[name]
  target[name] = function (...args) {
    const step = describe(...args)
    const when = place(step)
    if (when === undefined) return original.apply(this, args)
    if (when === 'after') return original.apply(this, args).then(async () => await standStill(step))
    if (when === 'before') return standStill(step)
    note(step)
    original.apply(this, args)
    process.kill(process.pid, 'SIGKILL')
  }
}

async function standStill (step) {
  setInterval(() => {}, 2 ** 30) // keeps a command running that waits for nothing else
  note(step)
  await new Promise(() => {})
}

const base = (path) => String(path).split('/').at(-1)
for (const name of ['open', 'rename', 'unlink']) stoppable(promises, name, (path) => `${name} ${base(path)}`)
const handle = await promises.open(file)
for (const [name, step] of [['writeFile', 'write'], ['sync', 'sync'], ['close', 'close']]) {
  stoppable(Object.getPrototypeOf(handle), name, () => step)
}
stoppable(
  pg.Client.prototype,
  'query',
  (query) => `query ${(query.text ?? String(query)).trim().replaceAll(/\s+/g, ' ')}`
)
stoppable(Redis.prototype, 'sendCommand', (command) => `redis ${command.name}`)

const { randomBytes } = crypto
crypto.randomBytes = (size, ...rest) => {
  const bytes = randomBytes(size, ...rest)
  if (size === 32 && rest.length === 0) connections.getStore()?.push(bytes.toString('base64url'))
  return bytes
}

const { emit } = http.Server.prototype
http.Server.prototype.emit = function (name, ...args) {
  return name === 'connection' ? connections.run([], () => emit.call(this, name, ...args))
    : emit.call(this, name, ...args)
}
syncBuiltinESMExports()

const { now } = Date
const monotonic = performance.now.bind(performance)
Date.now = () => now() + control().aheadMs
Object.defineProperty(performance, 'now', { value: () => monotonic() + control().aheadMs })
