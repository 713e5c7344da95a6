import { constants, type Stats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { isMissing } from '../../../infra/system/fs-utils.ts'
import type { FileInfo, OpenFile } from './file-store.ts'

/** Error codes for opening a symbolic link (O_NOFOLLOW) and a socket. */
const NOT_A_FILE = new Set(['ELOOP', 'ENXIO'])
const READ_BYTES = 64 * 1024

/** Opens a file for reading. @returns undefined if it is missing, a link, a folder or a device */
export async function openRegularFile (path: string): Promise<OpenFile | undefined> {
  let handle: FileHandle | undefined
  try {
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stats = await handle.stat()
    if (stats.isFile()) return openFile(handle, stats)
    await handle.close()
    return undefined
  } catch (error) {
    await handle?.close().catch(() => {})
    if (isMissing(error) || NOT_A_FILE.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

const openFile = (handle: FileHandle, stats: Stats): OpenFile => ({
  ...infoOf(stats),
  read: async (first = 0, last = Infinity) =>
    handle.createReadStream({ start: first, end: last, highWaterMark: READ_BYTES }),
  close: async () => await handle.close().catch(() => {})
})

export const infoOf = ({ size, mtime, mtimeMs, ctimeMs }: Stats): FileInfo => ({
  byteSize: size,
  // `mtime` is rounded to whole milliseconds, and so may be in the next second. nginx rounds down.
  modifiedAt: new Date(Math.floor(mtimeMs)),
  // A file that was copied with its old mtime has a new ctime.
  publishedAtMs: Math.max(mtimeMs, ctimeMs),
  // Size and time identify the bytes, because keys are never reused.
  etag: `"${size.toString(16)}-${mtime.getTime().toString(16)}"`
})
