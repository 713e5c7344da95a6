import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { LandfallClient } from '#client'
import { createFileError, pathOf } from '../input.ts'
import { explain, listParts } from '../owner-client.ts'
import { formatBytes, formatTime, print, printList, replaceControlCharacters } from '../output.ts'

// The commands for one's own assets through the API.

interface ListOptions {
  readonly json?: boolean
  readonly search?: string
}

export async function list (
  { assets }: LandfallClient,
  { json = false, search }: ListOptions
): Promise<void> {
  await printList(listParts(async (options) => await assets.listPage({ ...options, q: search })), {
    json,
    empty: search === undefined ? 'There are no assets yet' : 'There are no such assets',
    headings: ['ID', 'TYPE', 'SIZE', 'CREATED', 'NAME'],
    toRow: (asset) => [
      asset.id,
      asset.content_type,
      formatBytes(asset.byte_size),
      formatTime(asset.created_at),
      asset.filename
    ]
  })
}

/** Uploads files, and prints the URL of each. Stops at the first that fails. */
export async function upload (
  { assets }: LandfallClient,
  files: string[],
  { json = false }: { json?: boolean }
): Promise<void> {
  for (const file of files) {
    const blob = await openFile(file)
    const asset = await assets.upload(blob, { filename: basename(file) }).catch((error: unknown) => {
      throw new Error(`${replaceControlCharacters(file)}: ${explain(error)}`, { cause: error })
    })
    print(json ? `${JSON.stringify(asset)}\n` : `${asset.url}\n`)
  }
}

async function openFile (file: string): Promise<Blob> {
  try {
    // A pipe or a device has no size, and could be read for ever.
    if (!(await stat(pathOf(file))).isFile()) throw new Error('it is not a file')
    return await openAsBlob(pathOf(file))
  } catch (error) {
    throw createFileError(file, error as NodeJS.ErrnoException)
  }
}
