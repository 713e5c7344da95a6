import { readdirSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { startServiceOnPostgres, type CreatedPage } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { checkScreen, showFields, showPage, startOwner, typeAtStart } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { PROJECT } from '../../helpers/service.ts'

// axe on each dialog of a page, which is shown as a form or as code.

const { url } = await startServiceOnPostgres(t)
const browser = await startBrowser(t, provide('chromium'))
const { owner, tab } = await startOwner(t, browser, url)

type View = 'form' | 'code'

const button = (name: string) => tab.getByRole('button', { name, exact: true })
const link = (name: string) => tab.getByRole('link', { name, exact: true })
const documentUrl = ({ id }: CreatedPage) => `${url}/manage/landing_pages/${id}/document`
const write = async (page: CreatedPage, text: string) => await owner.call('PUT', documentUrl(page), { text })

/** Changes something that is not saved. */
async function change (view: View): Promise<void> {
  if (view === 'form') await tab.getByRole('textbox', { name: 'Title' }).pressSequentially('!')
  else await typeAtStart(tab, ' ')
}

interface Shown {
  /** The file of the dialog, in `console/src/`. */
  readonly file: string
  readonly title: string | RegExp
  /** Only in this view. */
  readonly view?: View
  open(page: CreatedPage, view: View): Promise<unknown>
  /** Leaves it; by default, Escape does. */
  close?(): Promise<unknown>
}

/** Each dialog of a page begins where the one before has ended. */
const DIALOGS: readonly Shown[] = [
  {
    file: 'screens/page/page-actions.tsx',
    title: 'Where does your website show this page?',
    open: async () => await button('View the page').click()
  },
  {
    file: 'screens/pages/delete-page.tsx',
    title: 'Delete this page?',
    open: async () => await button('Delete the page').click()
  },
  {
    file: 'screens/page/schedule-dialog.tsx',
    title: 'Schedule',
    open: async () => await button('Schedule').click()
  },
  {
    file: 'screens/page/preview-links.tsx',
    title: 'Preview links',
    open: async () => {
      await button('Preview links').click()
      await button('Create a token').click()
      await tab.getByText('It is shown only this once.').waitFor()
    }
  },
  {
    file: 'screens/assets/asset-picker.tsx',
    title: 'Choose an asset',
    open: async (_page, view) =>
      await button(view === 'form' ? 'Choose a picture for Picture' : 'Insert an asset').click()
  },
  {
    file: 'screens/page/fields/member-actions.tsx',
    title: 'Rename “Title”',
    view: 'form',
    open: async () => {
      await tab.getByText('For developers').click()
      await button('Add, rename or remove fields').click()
      await button('Rename Title').click()
    }
  },
  {
    file: 'screens/page/fields/add-field.tsx',
    title: 'Add a field',
    view: 'form',
    open: async () => await button('Add a field to the page').click(),
    close: async () => {
      await tab.keyboard.press('Escape')
      await button('Done with adding and renaming').click()
    }
  },
  {
    file: 'components/leave-dialog.tsx',
    title: 'Leave without saving?',
    open: async (_page, view) => {
      await change(view)
      await link('Pages').click()
    }
  },
  {
    file: 'screens/page/restore-dialog.tsx',
    title: /^Restore what you wrote/,
    open: async () => {
      await tab.waitForTimeout(1000) // what is typed is kept after a moment
      await tab.reload()
    },
    close: async () => await button('Restore').click()
  },
  {
    file: 'screens/page/conflict-dialog.tsx',
    title: 'This page has changed since you opened it',
    open: async (page) => {
      await write(page, '{"title": "Theirs", "picture": "", "price": 2}')
      await tab.keyboard.press('Control+s')
      await tab.getByRole('dialog').getByText('Theirs').first().waitFor()
    },
    close: async () => await button('Save my version').click()
  },
  {
    file: 'screens/page/version-dialog.tsx',
    title: 'Version 1 and version 2',
    open: async () => {
      await link('History').click()
      await button('Changes in version 2').click()
      await tab.getByRole('dialog').getByText('Theirs').first().waitFor()
    },
    close: async () => {
      await tab.keyboard.press('Escape')
      await link('Edit').click()
    }
  },
  {
    file: 'screens/page/draft-dialogs.tsx',
    title: 'The draft and the published version',
    open: async (_page, view) => {
      await change(view)
      await button('Save draft').click()
      await button('Compare with the published version').click()
      await tab.getByRole('dialog').getByText('published version').first().waitFor()
    }
  },
  {
    file: 'screens/page/draft-dialogs.tsx',
    title: 'Discard this draft?',
    open: async () => await button('Discard draft').click()
  },
  {
    file: 'screens/page/outdated-dialog.tsx',
    title: 'The page has changed since this draft was begun',
    open: async (page) => {
      await write(page, '{"title": "Newer", "picture": "", "price": 3}')
      await button('Publish').click()
    }
  }
]

for (const view of ['form', 'code'] as const) {
  t.test(`axe finds nothing in the dialogs of a page as ${view}`, async (t) => {
    const page = await owner.createPage(url, '{"title": "Sale", "picture": "", "price": 1}')
    await (view === 'form' ? showFields(tab, page) : showPage(tab, page))
    for (const dialog of DIALOGS) {
      if (dialog.view === undefined || dialog.view === view) await check(t, dialog, page, view)
    }
  })
}

async function check (t: Test, dialog: Shown, page: CreatedPage, view: View): Promise<void> {
  await dialog.open(page, view)
  const shown = tab.getByRole('dialog', { name: dialog.title })
  await shown.waitFor()
  await checkScreen(t, tab, `“${dialog.title}”, ${view}`, 'dialog[open]')
  if (dialog.close === undefined) await tab.keyboard.press('Escape')
  else await dialog.close()
  await shown.waitFor({ state: 'detached' })
}

t.test('no dialog of a page is forgotten here', async (t) => {
  const source = `${PROJECT}/console/src/`
  const files = readdirSync(`${source}screens/page`, { recursive: true, encoding: 'utf8' })
    .map((file) => `screens/page/${file}`)
    .filter((file) => file.endsWith('.tsx') && /<Dialog\s/.test(readFileSync(source + file, 'utf8')))
  t.same(files.filter((file) => !DIALOGS.some((dialog) => dialog.file === file)), [])
})
