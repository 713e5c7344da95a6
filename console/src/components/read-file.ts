/** Returns the bytes of a file. @throws {Error} for a folder, or if the file is gone or has changed */
export async function readFile (file: Blob): Promise<Uint8Array> {
  try {
    return new Uint8Array(await file.arrayBuffer())
  } catch {
    throw new Error('The browser can’t read this. If it is a folder, choose the files in it.')
  }
}
