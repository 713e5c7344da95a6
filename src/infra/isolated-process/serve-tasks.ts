import type { Readable } from 'node:stream'

// The side of the child process.

/** The bytes of the input follow on the standard input. */
export interface Question {
  readonly kind: string
  readonly task: unknown
  readonly byteSize: number
}

/** The bytes of the output follow on the standard output. */
export interface Response {
  readonly result: unknown
  readonly byteSize: number
}

/** Runs the tasks of one kind. An error ends the process. */
type Handler = (task: never, input: Buffer) => HandlerResponse | Promise<HandlerResponse>
type Handlers = Readonly<Record<string, Handler>>

export interface HandlerResponse<Result = unknown> {
  readonly result: Result
  readonly output?: Buffer
}

/** Ends this process at once; `process.exit` would wait for native code that runs. */
const endProcess = (): boolean => process.kill(process.pid, 'SIGKILL')

/** Makes this process run the tasks of its parent, by kind. It ends with its parent. */
export function serveTasks (handlers: Handlers): void {
  process.on('disconnect', endProcess)
  // Ctrl-C reaches all processes of a terminal. The service ends this one when it has finished its requests.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {})
  process.on('message', (question: Question) => {
    serve(handlers, question).catch((error: unknown) => {
      console.error(error)
      process.exit(1)
    })
  })
  if (process.send === undefined) endProcess()
  else process.send('ready')
}

async function serve (handlers: Handlers, { kind, task, byteSize }: Question): Promise<void> {
  const handler = handlers[kind] as Handler
  const { result, output } = await handler(task as never, await readInput(process.stdin, byteSize))
  const response: Response = { result, byteSize: output?.length ?? 0 }
  process.send?.(response)
  if (output !== undefined) process.stdout.write(output)
}

async function readInput (stream: Readable, byteSize: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(byteSize)
  let received = 0
  if (byteSize === 0) return bytes
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    received += chunk.copy(bytes, received)
    if (received === byteSize) break
  }
  return bytes
}
