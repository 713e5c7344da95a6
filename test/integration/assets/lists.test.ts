import { signUp, type Account } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { onEachStore } from '../../helpers/stores.ts'

onEachStore(
  "a list contains only the user's own assets, even with a cursor from another user's list",
  async (t, build) => {
    const app = await build(t)
    const [owner, stranger] = [await signUp(app), await signUp(app)]
    const own: string[] = []
    const strange: string[] = []
    for (let n = 0; n < 3; n++) {
      strange.unshift((await upload(app, stranger, PNG)).json().id)
      own.unshift((await upload(app, owner, PNG)).json().id)
    }
    const list = async (account: Account, query: string) => {
      const response = await app.inject({ url: `/assets?${query}`, headers: account.headers })
      return {
        ids: response.json().map(({ id }: { id: string }) => id),
        next: /[?]([^>]*)>/.exec(String(response.headers.link))?.[1] ?? ''
      }
    }
    const first = await list(owner, 'limit=1')
    t.same(first.ids, own.slice(0, 1))
    t.same((await list(owner, first.next.replace('limit=1', 'limit=100'))).ids, own.slice(1))
    t.same((await list(stranger, first.next.replace('limit=1', 'limit=100'))).ids, strange)
  }
)
