import { Readable } from 'node:stream'

/**
 * Returns a stream of an object's body. The stream fails if the storage sends nothing for `idleMs` while the
 * reader is waiting. A slow reader never causes a timeout. Destroying the stream closes the connection.
 */
export function withIdleTimeout (body: Readable, idleMs: number): Readable {
  let timer: NodeJS.Timeout | undefined
  const fail = (error: Error) => stream.destroy(error)
  const restartTimer = () => {
    clearTimeout(timer)
    timer = setTimeout(() => fail(new Error('The object storage stopped sending a file')), idleMs)
  }
  const stream = new Readable({
    highWaterMark: 64 * 1024,
    read () {
      restartTimer()
      body.resume()
    },
    destroy (error, done) {
      clearTimeout(timer)
      body.destroy()
      done(error)
    }
  })
  body.on('data', (chunk: Uint8Array) => {
    if (stream.push(chunk)) return restartTimer()
    clearTimeout(timer)
    body.pause()
  })
  body.on('end', () => {
    clearTimeout(timer)
    stream.push(null)
  })
  body.on('error', fail)
  body.on('close', () => {
    if (!body.readableEnded) {
      fail(new Error('The object storage closed the connection before the end of a file'))
    }
  })
  stream.on('error', () => {}) // the stream may fail before it is read
  body.pause()
  return stream
}
