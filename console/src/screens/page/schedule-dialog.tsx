import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { DateTimeField } from '../../components/date-time-field.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'
import { useAction } from '../../core/load.ts'
import type { Editing } from './use-editing.ts'

interface ScheduleDialogProps {
  readonly editing: Editing
  readonly onClose: () => void
}

/** Sets when the page is published and unpublished by itself. */
export function ScheduleDialog ({ editing, onClose }: ScheduleDialogProps) {
  const { kind, isChanged, publication: { published, publish_at: publishAt, unpublish_at: unpublishAt } } =
    editing
  const isDraft = kind === 'draft' || (published && isChanged)
  const canPublish = isDraft || !published
  const [times, setTimes] = useState({ publishAt: timeOf(publishAt), unpublishAt: timeOf(unpublishAt) })
  const isSet = publishAt !== null || unpublishAt !== null
  const setting = useAction(async () => {
    if (times.publishAt === undefined && times.unpublishAt === undefined && !isSet) {
      throw new Error(`Choose ${canPublish ? 'at least one of the two times' : 'a time'}.`)
    }
    if (
      times.publishAt !== undefined && times.unpublishAt !== undefined && times.unpublishAt <= times.publishAt
    ) {
      throw new Error('The page must be unpublished later than it is published.')
    }
    await editing.schedule(times)
    onClose()
  })
  const removing = useAction(async () => {
    await editing.schedule({ publishAt: undefined, unpublishAt: undefined })
    onClose()
  })
  const choose = (chosen: Partial<typeof times>) => {
    setTimes({ ...times, ...chosen })
    setting.forget()
  }
  const isBusy = setting.isRunning || removing.isRunning
  return (
    <Dialog title='Schedule' onClose={onClose} canCancel={!isBusy}>
      <Form onSubmit={() => setting.run()}>
        {canPublish
          ? (
            <DateTimeField
              label={isDraft ? 'Publish the draft at' : 'Publish the page at'}
              value={times.publishAt}
              onInput={(time) => choose({ publishAt: time })}
            />
          )
          : <p>To publish a change at a set time, save it as a draft first.</p>}
        <DateTimeField
          label='Unpublish the page at'
          value={times.unpublishAt}
          onInput={(time) => choose({ unpublishAt: time })}
        />
        {canPublish && isDraft && (
          <p class='quiet'>
            Until it is published, nobody can change the draft, so that what you have read is what visitors
            get.
            {isChanged && ' Your unsaved changes are saved in it first.'}
          </p>
        )}
        <ErrorNotice error={setting.error ?? removing.error} />
        <Actions>
          <Button type='submit' kind='primary' isBusy={setting.isRunning}>
            {canPublish ? 'Set the schedule' : 'Unpublish at this time'}
          </Button>
          {isSet && (
            <Button isBusy={removing.isRunning} onClick={() => removing.run()}>Remove the schedule</Button>
          )}
          <Button onClick={onClose} isDisabled={isBusy}>Cancel</Button>
        </Actions>
      </Form>
    </Dialog>
  )
}

const timeOf = (text: string | null): Date | undefined => text === null ? undefined : new Date(text)
