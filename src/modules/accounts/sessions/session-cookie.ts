import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** The only route that gets the cookie. */
export const BROWSER_SESSION_PATH = '/auth/browser_session'

/** A refresh token, as createToken() makes it. */
const TOKEN = /^[\w-]{43}$/

/** The cookie in which a browser keeps the refresh token of its session. Scripts can't read it. */
export class SessionCookie {
  readonly #name: string
  readonly #attributes: string
  readonly #maxAgeSeconds: number
  readonly #pattern: RegExp

  constructor ({ config, publicPath }: FastifyInstance) {
    const isSecure = config.BASE_URL?.startsWith('https://') === true
    // A page without TLS can't set a cookie with this prefix, so nobody on the network can plant one.
    this.#name = isSecure ? '__Secure-landfall_session' : 'landfall_session'
    this.#attributes = `Path=${publicPath(BROWSER_SESSION_PATH)}; HttpOnly; SameSite=Strict${
      isSecure ? '; Secure' : ''
    }`
    this.#maxAgeSeconds = config.REFRESH_TOKEN_TTL
    this.#pattern = new RegExp(`(?:^|;)[ \\t]*${this.#name}=([^;]*)`, 'g')
  }

  /** Whether a request has the cookie once. A page of a sibling domain may have planted a second one. */
  isIn (request: FastifyRequest): boolean {
    return this.#valuesIn(request).length === 1
  }

  /** Returns the refresh token of a request; undefined if the cookie is missing, malformed or ambiguous. */
  tokenIn (request: FastifyRequest): string | undefined {
    const [value = '', ...others] = this.#valuesIn(request)
    return others.length === 0 && TOKEN.test(value) ? value : undefined
  }

  set (reply: FastifyReply, token: string): void {
    reply.header('set-cookie', `${this.#name}=${token}; Max-Age=${this.#maxAgeSeconds}; ${this.#attributes}`)
  }

  clear (reply: FastifyReply): void {
    reply.header('set-cookie', `${this.#name}=; Max-Age=0; ${this.#attributes}`)
  }

  #valuesIn ({ headers: { cookie = '' } }: FastifyRequest): string[] {
    return [...cookie.matchAll(this.#pattern)].map(([, value = '']) => value.trim())
  }
}
