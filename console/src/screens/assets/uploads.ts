import { LandfallError, type Asset } from '@landfall/client'
import { announce } from '../../core/announcements.tsx'
import { sentencesOf } from '../../components/error-notice.tsx'
import { formatBytes } from '../../components/format.tsx'
import { readFile } from '../../components/read-file.ts'
import { landfall } from '../../core/service.ts'
import { sessionStore } from '../../core/session.ts'
import { createStore } from '../../core/store.ts'
import { watchUpload } from '../../core/upload-fetch.ts'

// Uploads go on while the person looks at other screens, so they belong to none of them.

const MAX_RUNNING = 2

/** A file on its way. Files that have arrived are no uploads any more. */
export interface Upload {
  readonly id: number
  readonly file: File
  readonly status: 'waiting' | 'sending' | 'failed'
  /** How much was sent, from 0 to 1. */
  readonly fraction: number
  /** Why it failed. */
  readonly errors: readonly string[]
  /** Whether it could succeed another time. */
  readonly canRetry: boolean
}

/** In the order in which they were added. */
export const uploadsStore = createStore<readonly Upload[]>([])

const controllers = new Map<number, AbortController>()
const listeners = new Set<(asset: Asset, file: File) => void>()
/** Who waits for the end of the first attempt of an upload. */
const attempts = new Map<number, (asset: Asset | undefined) => void>()
let lastId = 0
/** Files that have arrived since the last time when there was nothing to send. */
let arrived = 0

/** Calls `listener` with the record of each file that has arrived. Returns a function that ends this. */
export function onUploaded (listener: (asset: Asset, file: File) => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/**
 * Uploads files, two at a time. A file that is too large is not sent.
 *
 * @returns the records of those that have arrived without a further attempt, in the order of the files
 */
export async function upload (files: readonly File[], maxBytes: number): Promise<readonly Asset[]> {
  const added = files.map((file): Upload => {
    const isTooLarge = file.size > maxBytes
    return {
      id: ++lastId,
      file,
      status: isTooLarge ? 'failed' : 'waiting',
      fraction: 0,
      errors: isTooLarge ? [tooLargeMessage(file, maxBytes)] : [],
      canRetry: !isTooLarge
    }
  })
  uploadsStore.set([...uploadsStore.get(), ...added])
  const refused = added.filter(({ status }) => status === 'failed').length
  if (refused > 0) announce(refused === 1 ? 'A file is too large.' : `${refused} files are too large.`)
  const ends = added.filter(({ status }) => status === 'waiting').map(async ({ id }) =>
    await new Promise<Asset | undefined>((resolve) => attempts.set(id, resolve))
  )
  sendNext()
  return (await Promise.all(ends)).filter((asset) => asset !== undefined)
}

function endAttempt (id: number, asset?: Asset): void {
  attempts.get(id)?.(asset)
  attempts.delete(id)
}

/** Stops an upload, or takes a failed one out of the list. */
export function cancelUpload ({ id, file, status }: Upload): void {
  uploadsStore.set(uploadsStore.get().filter((one) => one.id !== id))
  controllers.get(id)?.abort()
  endAttempt(id)
  if (status !== 'failed') announce(`Cancelled: ${file.name}`)
}

/** Uploads a file again that has failed. */
export function retryUpload ({ id }: Upload): void {
  change(id, { status: 'waiting', fraction: 0, errors: [] })
  sendNext()
}

const tooLargeMessage = ({ size }: File, maxBytes: number): string =>
  `The file has ${formatBytes(size)}, but it can have at most ${formatBytes(maxBytes)}.`

function change (id: number, changes: Partial<Upload>): void {
  uploadsStore.set(uploadsStore.get().map((one) => one.id === id ? { ...one, ...changes } : one))
}

function sendNext (): void {
  if (isIdle()) removeEventListener('beforeunload', warn)
  if (controllers.size >= MAX_RUNNING || sessionStore.get().status === 'ended') return
  const next = uploadsStore.get().find(({ status }) => status === 'waiting')
  if (next === undefined) return
  addEventListener('beforeunload', warn)
  send(next).finally(sendNext)
  sendNext()
}

const isIdle = (): boolean => uploadsStore.get().every(({ status }) => status === 'failed')

/** Lets the browser ask before the tab is closed. */
const warn = (event: Event): void => event.preventDefault()

async function send ({ id, file }: Upload): Promise<void> {
  const controller = new AbortController()
  controllers.set(id, controller)
  change(id, { status: 'sending' })
  const { signal } = controller
  watchUpload(signal, (fraction) => change(id, { fraction }))
  try {
    await readFile(file.slice(0, 1)) // a folder would look like a failure of the network
    const asset = await landfall.assets.upload(file, { signal })
    uploadsStore.set(uploadsStore.get().filter((one) => one.id !== id))
    for (const listener of listeners) listener(asset, file)
    arrived++
    announce(isIdle() && arrived > 1 ? `${arrived} files are uploaded.` : `Uploaded: ${asset.filename}`)
    endAttempt(id, asset)
  } catch (error) {
    if (signal.aborted) return
    if (error instanceof LandfallError && error.status === 401 && sessionStore.get().status === 'ended') {
      return change(id, { status: 'waiting', fraction: 0 }) // for the next sign-in
    }
    endAttempt(id)
    change(id, { status: 'failed', errors: sentencesOf(error), canRetry: true })
    announce(`Not uploaded: ${file.name}`)
  } finally {
    controllers.delete(id)
    if (isIdle()) arrived = 0
  }
}

let owner: number | undefined

// Whoever signs in next has nothing to do with them.
sessionStore.subscribe(() => {
  const session = sessionStore.get()
  const userId = 'user' in session ? session.user.id : undefined
  if (userId === owner) return sendNext()
  owner = userId
  uploadsStore.set([])
  for (const controller of controllers.values()) controller.abort()
  for (const id of attempts.keys()) endAttempt(id)
})
