import fc from 'fast-check'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { buildTestApp, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'

// Compares two replicas with a model after random sequences of sign-ups, sign-ins, refreshes, replays,
// sign-outs and waits.

const settings = { ...await testSettings(t), ...GENEROUS }
const replicas = [await buildTestApp(t, settings), await buildTestApp(t, settings)] as const

interface ModelSession {
  readonly user: number
  revoked: boolean
}
interface AccessToken {
  readonly token: string
  readonly session: ModelSession
}
interface RefreshToken extends AccessToken {
  /** When the token was used, in seconds of the model's time. Undefined while it is unused. */
  spentAt: number | undefined
}

/** The state of one sequence. A step chooses a token by a number, modulo the number of tokens. */
class Life {
  readonly users: { email: string, id: number }[] = []
  readonly access: AccessToken[] = []
  readonly refresh: RefreshToken[] = []
  now = 0

  learn (body: { access_token: string, refresh_token: string }, session: ModelSession): void {
    this.access.push({ token: body.access_token, session })
    this.refresh.push({ token: body.refresh_token, session, spentAt: undefined })
  }

  static choose<T> (list: readonly T[], choice: number): T {
    return list[choice % list.length] as T
  }
}

const send = async (
  app: FastifyInstance,
  method: 'POST' | 'DELETE',
  url: string,
  payload: object,
  headers: Record<string, string> = {}
) => await app.inject({ method, url, payload, headers })
const bearer = ({ token }: AccessToken) => ({ authorization: `Bearer ${token}` })
const lives = async (app: FastifyInstance, token: AccessToken): Promise<boolean> =>
  (await app.inject({ url: '/auth/me', headers: bearer(token) })).statusCode === 200

type Step = {
  readonly kind: 'sign up' | 'sign in' | 'refresh' | 'sign out' | 'wait'
  readonly a: number
  readonly b: number
  readonly replica: 0 | 1
}

/** Performs a step on the service and on the model. Throws if their results differ. */
async function take (life: Life, { kind, a, b, replica }: Step): Promise<void> {
  const app = replicas[replica]
  const expect = (actual: number, expected: number) => {
    if (actual !== expected) {
      throw new Error(`${kind}: the status is ${actual}, the model expects ${expected}`)
    }
  }
  if (kind === 'sign up' || life.users.length === 0) {
    const account = await signUp(app)
    life.users.push(account.user)
    life.learn(account, { user: account.user.id, revoked: false })
  } else if (kind === 'sign in') {
    const { email, id } = Life.choose(life.users, a)
    const isRight = b % 4 > 0
    const user = { email, password: isRight ? PASSWORD : 'wrong password' }
    const response = await send(app, 'POST', '/auth/sign_in', { user })
    expect(response.statusCode, isRight ? 200 : 401)
    if (isRight) life.learn(response.json(), { user: id, revoked: false })
  } else if (kind === 'refresh') {
    const token = Life.choose(life.refresh, a)
    const usable = token.spentAt === undefined && !token.session.revoked
    const response = await send(app, 'POST', '/auth/refresh', { refresh_token: token.token })
    expect(response.statusCode, usable ? 200 : 401)
    if (usable) {
      token.spentAt = life.now
      life.learn(response.json(), token.session)
    } else if (token.spentAt !== undefined && life.now - token.spentAt > 10) token.session.revoked = true
  } else if (kind === 'sign out') {
    const access = Life.choose(life.access, a)
    const token = Life.choose(life.refresh, b)
    const allowed = !access.session.revoked && !token.session.revoked && token.spentAt === undefined &&
      token.session.user === access.session.user
    const body = { refresh_token: token.token }
    const response = await send(app, 'DELETE', '/auth/sign_out', body, bearer(access))
    expect(response.statusCode, allowed ? 204 : 401)
    if (allowed) access.session.revoked = token.session.revoked = true
  } else {
    // Moves spent tokens into the past. The steps of 20 s stay far from the tolerance of 10 s, because real
    // time passes, too.
    const seconds = 20 * (a % 2)
    life.now += seconds
    await app.database
      .$executeRaw`UPDATE refresh_tokens SET rotated_at = rotated_at - make_interval(secs => ${seconds}::double precision) WHERE rotated_at IS NOT NULL`
  }
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('sign up', 'sign in', 'refresh', 'refresh', 'refresh', 'refresh', 'sign out', 'wait'),
  a: fc.nat(50),
  b: fc.nat(50),
  replica: fc.constantFrom(0, 1)
})

t.test('after any operations, the valid tokens are those of the model', async (t) => {
  let compared = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      const life = new Life()
      for (const each of steps) await take(life, each)
      for (const [n, token] of life.access.entries()) {
        compared++
        if (await lives(replicas[n % 2 as 0 | 1], token) === token.session.revoked) {
          throw new Error(`access token ${n} ${token.session.revoked ? 'is valid' : 'is invalid'}`)
        }
      }
      // Refresh tokens come last, because each use changes the state. In the order of issue, a replay can
      // end the sessions of later tokens.
      for (const a of life.refresh.slice(0, 60).keys()) {
        await take(life, { kind: 'refresh', a, b: 0, replica: 0 })
        compared++
      }
    }),
    { numRuns: 12, endOnFailure: false }
  )
  t.ok(compared > 20, `${compared} tokens compared`)
})
