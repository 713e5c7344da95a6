import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { useFileDrop } from '../../components/file-drop.ts'
import { ListView, type Parameter } from '../../components/list-view.tsx'
import { Screen } from '../../components/screen.tsx'
import { useList } from '../../core/list.ts'
import { href } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { DeletePage } from './delete-page.tsx'
import { NewPage } from './new-page.tsx'
import { PageRow, type ListedPage } from './page-list.tsx'

/** Pages in one part, the most that the service gives. */
const PART = 100
const CHOICES: readonly Parameter[] = [
  ['sort', 'Order', [['Newest first', ''], ['Last changed first', 'updated'], ['A to Z', 'label']]]
]

/** The pages of the account. */
export function PagesScreen () {
  const list = useList(landfall.landingPages.summariesPage, PART, true)
  /** The files of the dialog for a new page; undefined while it is closed. */
  const [newFiles, setNewFiles] = useState<readonly File[]>()
  const [toDelete, setToDelete] = useState<ListedPage>()
  const isDragging = useFileDrop((files) => {
    if (toDelete === undefined) setNewFiles(files)
  })
  const create = () => setNewFiles([])
  return (
    <Screen
      title='Pages'
      actions={!list.isEmpty && <Button kind='primary' onClick={create}>New page</Button>}
    >
      {list.isEmpty ? <NoPages onCreate={create} /> : (
        <ListView
          list={list}
          noun='page'
          searchedBy='name, key or public id'
          choices={CHOICES}
          listClass='page-list'
          skeleton={<li class='page-list__row page-list__row--skeleton' />}
        >
          {(page) => <PageRow page={page} onDelete={setToDelete} key={page.id} />}
        </ListView>
      )}
      <p class='pages-foot'>
        <a href={href('trash')}>Trash</a>
      </p>
      {isDragging && <p class='drop-target'>Drop a JSON file to create a page from it.</p>}
      {newFiles !== undefined && <NewPage files={newFiles} onClose={() => setNewFiles(undefined)} />}
      {toDelete !== undefined && (
        <DeletePage
          page={toDelete}
          onDeleted={() => {
            list.remove(toDelete.id)
            setToDelete(undefined)
          }}
          onClose={() => setToDelete(undefined)}
        />
      )}
    </Screen>
  )
}

function NoPages ({ onCreate }: { readonly onCreate: () => void }) {
  return (
    <div class='empty'>
      <h2>Create your first page</h2>
      <p>
        A page is a JSON document with a public address, from which your website reads it. You can change it
        here at any time.
      </p>
      <Button kind='primary' onClick={onCreate}>New page</Button>
      <p class='quiet'>Or drop a JSON file here.</p>
    </div>
  )
}
