// fetch() doesn't tell how much of a body was sent, so uploads are sent by XMLHttpRequest. The client doesn't
// pass the file on as it is, but it passes on the signal, so that tells which upload a request belongs to.

/** @param fraction how much was sent, from 0 to 1 */
type ProgressListener = (fraction: number) => void

const listeners = new WeakMap<AbortSignal, ProgressListener>()

/** Calls `listener` while the body of a request with this signal is sent. */
export function watchUpload (signal: AbortSignal, listener: ProgressListener): void {
  listeners.set(signal, listener)
}

/** Like fetch(), but sends watched requests with progress. */
export async function fetchWithProgress (url: string, init: RequestInit): Promise<Response> {
  const { signal } = init
  const listener = signal && listeners.get(signal)
  if (!signal || listener === undefined || listener === null) return await fetch(url, init)
  return await send(url, init, signal, listener)
}

async function send (
  url: string,
  { method = 'GET', headers, body }: RequestInit,
  signal: AbortSignal,
  onProgress: ProgressListener
): Promise<Response> {
  signal.throwIfAborted()
  return await new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    request.open(method, url)
    for (const [name, value] of new Headers(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total)
    request.onload = () => {
      const { status, statusText, responseText } = request
      resolve(new Response(responseText, { status, statusText, headers: headersOf(request) }))
    }
    request.onerror = () => reject(new TypeError('A network error'))
    request.onabort = () => reject(signal.reason)
    request.onloadend = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)
    request.send(body as Blob)
  })
}

function headersOf (request: XMLHttpRequest): Headers {
  const lines = request.getAllResponseHeaders().split('\r\n').filter(Boolean)
  return new Headers(lines.map((line): [string, string] => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  }))
}
