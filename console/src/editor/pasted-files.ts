/** Returns the files of a paste, such as a picture. Programs that copy text often add a picture of it. */
export function pastedFiles ({ clipboardData }: ClipboardEvent): readonly File[] {
  if (clipboardData === null || clipboardData.types.includes('text/plain')) return []
  return [...clipboardData.files]
}
