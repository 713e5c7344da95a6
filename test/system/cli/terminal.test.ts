import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PASSWORD, startServiceOnPostgres } from '../../helpers/app.ts'
import { onTerminal } from '../../helpers/cli.ts'
import { Owner } from '../../helpers/client.ts'
import { createMigratedDatabase, query } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'

// Commands on a terminal: those of owners show the changes and ask.

const { url } = await startServiceOnPostgres(t)
const owner = await Owner.signUp(url)

/** Runs a `pages` command on a terminal. */
const pages = async (t: Test, args: string[], answers: Parameters<typeof onTerminal>[3] = [], env = {}) =>
  await onTerminal(
    t,
    { LANDFALL_URL: url, LANDFALL_KEY: owner.accessToken, ...env },
    ['pages', ...args],
    answers
  )

const readPage = async (id: string) =>
  (await owner.call('GET', `${url}/manage/landing_pages/${id}/document`)).text
const putPage = async (id: string, text: string) =>
  await owner.call('PUT', `${url}/manage/landing_pages/${id}/document`, { text })

/** Writes a document into a file. */
function saved (t: Test, document: string): string {
  const file = join(temporaryFolder(t), 'new.json')
  writeFileSync(file, document)
  return file
}

t.test('put shows a diff and writes only after a yes', async (t) => {
  const { id } = await owner.createPage(url, '{}')
  const document = '{\n  "title": "Tents",\n  "price": 1.0,\n  "on": true\n}\n'
  await putPage(id, document)
  const file = saved(t, document.replace('1.0', '1.50').replace('}\n', '}'))
  const diff = `--- current
+++ ${file}
@@ -1,5 +1,5 @@
 {
   "title": "Tents",
-  "price": 1.0,
+  "price": 1.50,
   "on": true
-}
+}
\\ No newline at end of file
Write this? [y/N] `
  for (const no of ['n\r', '\r', 'yess\r', '\u0004']) {
    const { code, shown } = await pages(t, ['put', id, file], [no])
    t.equal(code, 1)
    t.ok(shown.startsWith(diff), shown)
    t.match(shown, /\nNothing was changed\n$|Write this\? \[y\/N\] Nothing was changed\n$/)
  }
  t.match(await pages(t, ['put', id, file], ['\u0003']), {
    code: 1,
    shown: /Interrupted: nothing was changed\n$/
  })
  t.equal(await readPage(id), document)
  t.match(await pages(t, ['put', id, file], ['y\r']), { code: 0, shown: /\[y\/N\] y\nETag: "[\w-]{43}"\n$/ })
  t.equal(await readPage(id), readFileSync(file, 'utf8'))
  t.match(await pages(t, ['put', id, file]), {
    code: 0,
    shown: 'Nothing was changed: the page already has this document\n'
  })
  t.match(await pages(t, ['put', id, saved(t, '[]'), '--yes']), {
    code: 0,
    shown: /^--- current\n[^?]*\n\+\[\]\n\\ No newline at end of file\nETag: "[\w-]{43}"\n$/
  })
  t.match(await pages(t, ['put', id]), { code: 2, shown: /^Name a file, / })
})

t.test('a change by somebody else between the diff and the answer is not overwritten', async (t) => {
  const { id, etag } = await owner.createPage(url, '{"n":1}')
  const changeMeanwhile = async () => {
    await putPage(id, '{"n":2}')
    return 'y\r'
  }
  const put = await pages(t, ['put', id, saved(t, '{"n":3}')], [changeMeanwhile])
  t.match(put, { code: 1, shown: /Somebody has changed the page meanwhile, and nothing was written/ })
  t.equal(await readPage(id), '{"n":2}')
  t.match(await pages(t, ['put', id, saved(t, '{"n":3}'), '--if-match', etag.replaceAll('"', '')]), {
    code: 1,
    shown: /^The resource has changed/
  }, 'already before the diff')
  t.equal(await readPage(id), '{"n":2}')
})

t.test('restore shows what it changes', async (t) => {
  const { id } = await owner.createPage(url, '{"n":1}')
  await putPage(id, '{"n":2}')
  t.match(await pages(t, ['restore', id, '1'], ['y\r']), {
    code: 0,
    shown:
      /^--- current\n\+\+\+ version 1\n.*\n-\{"n":2\}\n.*\n\+\{"n":1\}\n[^]*\[y\/N\] y\nETag: "[\w-]{43}\.3"\n$/
  })
  t.equal(await readPage(id), '{"n":1}')
  t.match(await pages(t, ['restore', id, '3']), { code: 0, shown: /^Nothing was changed: / })
})

t.test('delete asks first', async (t) => {
  const { id } = await owner.createPage(url, '[]')
  const question = `Delete page ${id}? [y/N] `
  t.match(await pages(t, ['delete', id], ['n\r']), { code: 1, shown: `${question}n\nNothing was changed\n` })
  t.equal(await readPage(id), '[]')
  t.match(await pages(t, ['delete', id], ['y\r']), { code: 0, shown: `${question}y\nDeleted ${id}\n` })
  const other = await owner.createPage(url, '[]')
  t.match(await pages(t, ['delete', other.id, '--yes']), { code: 0, shown: `Deleted ${other.id}\n` })
})

t.test('long lines are laid out, and nothing reaches the terminal that controls it', async (t) => {
  const { id } = await owner.createPage(url, '{}')
  const names = Array.from({ length: 50 }, (_, index) => `name-${index}`)
  const document = JSON.stringify({ names, empty: [{}, []], text: 'a\\"b' })
  await putPage(id, document)
  const changed = document.replace('name-20', 'NAME-20').replace('[{},[]]', '[ {} , [] ]')
  const { shown } = await pages(t, ['put', id, saved(t, changed)])
  t.match(shown, /^The documents are laid out .*\n--- current\n\+\+\+ .*\n@@ -20,7 \+20,7 @@\n/)
  t.match(
    shown,
    '\n     "name-19",\n-    "name-20",\n+    "NAME-20",\n     "name-21",\n     "name-22",\n     ' +
      '"name-23",\nWrite'
  )
  t.match(await pages(t, ['put', id, saved(t, document.replaceAll(',', ', '))]), {
    shown: /^Only white space .*differs\.\nWrite this\?/
  })

  const other = await owner.createPage(url, '{}')
  const evil = '["\u202e\u2066\u009b2J\u007f\u00ad\u2028", "\u{1f468}\u200d\u{1f4bb}"]\r\n'
  const { shown: safe } = await pages(t, ['put', other.id, saved(t, evil)])
  t.match(safe, '+["<U+202E><U+2066><U+009B>2J<U+007F><U+00AD><U+2028>", "\u{1f468}\u200d\u{1f4bb}"]^M\n')
  const colours = await pages(t, ['put', other.id, saved(t, evil)], [], { NO_COLOR: undefined })
  t.match(colours.shown, '\u001b[32m+["<U+202E>')
})

t.test('edit asks before it writes, and offers another edit of what is refused', async (t) => {
  const { id } = await owner.createPage(url, '{"n": 1}')
  const TMPDIR = temporaryFolder(t)
  const edit = async (EDITOR: string, ...answers: string[]) =>
    await pages(t, ['edit', id], answers, { TMPDIR, EDITOR })
  t.match(await edit('sed -i s/1/2/', 'y\r'), {
    code: 0,
    shown: /^--- current\n\+\+\+ edited\n[^]*\+\{"n": 2\}[^]*\nETag: "/
  })
  t.equal(await readPage(id), '{"n": 2}')

  // The first edit makes it invalid, the second one repairs it.
  const repaired = await edit('sed -i "s/oops/3/;s/2/oops/"', 'y\r', 'y\r')
  t.match(repaired, {
    code: 0,
    shown: new RegExp([
      '^The document is not valid JSON \\(line 1, column 7\\): nothing was written\n',
      'Edit again\\? \\[y/N\\] y\n--- current\n'
    ].join(''))
  })
  t.equal(await readPage(id), '{"n": 3}')

  const declined = await edit('sed -i s/3/4/', 'n\r')
  const [, file = ''] = /\nNothing was changed\nYour text is in (\S+)\n$/.exec(declined.shown) ?? []
  t.equal(readFileSync(file, 'utf8'), '{"n": 4}')
  t.equal(await readPage(id), '{"n": 3}')
  t.match(
    (await edit('sed -i s/3/oops/', 'n\r')).shown,
    /Edit again\? \[y\/N\] n\nNothing was changed\nYour text/
  )
})

t.test("a command on a terminal asks twice for a new password and doesn't show it", async (t) => {
  const env = { DATABASE_URL: await createMigratedDatabase(t), UPLOADS_DIR: temporaryFolder(t) }
  const create = async (email: string, ...answers: string[]) =>
    await onTerminal(t, env, ['users', 'create', email], answers)
  const done = await create('typed@example.com', `${PASSWORD}x\u007f\r`, `${PASSWORD}\r`)
  t.equal(done.code, 0, done.shown)
  t.match(done.shown, /^New password: \nRepeat password: \nCreated account 1, typed@example\.com\n$/)
  t.match(await create('other@example.com', `${PASSWORD}\r`, `${PASSWORD}!\r`), {
    code: 1,
    shown: /The two passwords differ: nothing was changed/
  })
  t.match(await create('other@example.com', 'half\u0003'), {
    code: 1,
    shown: /Interrupted: nothing was changed/
  })
  t.match(await query(env.DATABASE_URL, 'SELECT email FROM users'), [{ email: 'typed@example.com' }])
})

t.test('a failed start on a terminal says why in plain lines', async (t) => {
  t.match(await onTerminal(t, { PORT: 'x' }, ['serve']), {
    code: 1,
    shown: "Landfall can't start with these settings:\nPORT must be a whole number from 0 to 65535\n"
  })
})
