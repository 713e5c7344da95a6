import { useEffect, useState } from 'preact/hooks'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { formatNumber, LANGUAGE } from '../../components/format.tsx'
import { useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { BarChart, type Bar } from './bar-chart.tsx'

type Period = 'hour' | 'day'

const PERIODS = [['hour', 'Last 24 hours'], ['day', 'Last 30 days']] as const
/** Days are counted in UTC, hours are the same everywhere. */
const FORMATS: Readonly<Record<Period, Intl.DateTimeFormat>> = {
  hour: new Intl.DateTimeFormat(LANGUAGE, { weekday: 'short', hour: 'numeric', minute: '2-digit' }),
  day: new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeZone: 'UTC' })
}

/** The service counts a read after some seconds. */
const REFRESH_MS = 10_000

/** How often the page was read. New reads appear by themselves. */
export function VisitorsTab ({ id }: { readonly id: string }) {
  const [per, setPer] = useState<Period>('hour')
  const { data, error, reload } = useLoad(async (signal) => {
    const counts = await landfall.landingPages.reads(id, { per, signal })
    return { per, bars: counts.map((count) => toBar(count, per)) }
  }, [id, per])
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible' && error === undefined) reload()
    }, REFRESH_MS)
    return () => clearInterval(timer)
  }, [error])
  // While the other period is loaded, this one stays.
  const shown = data?.per ?? per
  const total = data?.bars.reduce((sum, { value }) => sum + value, 0) ?? 0
  return (
    <section aria-label='Visitors'>
      <fieldset class='periods'>
        <legend class='visually-hidden'>Period</legend>
        {PERIODS.map(([value, name]) => (
          <label class='periods__period' key={value}>
            <input type='radio' name='period' checked={per === value} onChange={() => setPer(value)} />
            {name}
          </label>
        ))}
      </fieldset>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the counts …</p>}
      {data !== undefined && (
        <>
          <p class='visitors__total'>
            <strong>{formatNumber(total)}</strong> {total === 1 ? 'read' : 'reads'} in the{' '}
            {shown === 'hour' ? 'last 24 hours' : 'last 30 days'}
          </p>
          {total === 0 && (
            <p class='empty'>
              Nobody has read this page in this time. The tab “Use” shows how a website reads it. New reads
              are counted here after some seconds.
            </p>
          )}
          {total > 0 && (
            <BarChart
              bars={data.bars}
              label={shown === 'hour' ? 'Reads in each hour' : 'Reads on each day, in UTC'}
              columns={[shown === 'hour' ? 'Hour' : 'Day (UTC)', 'Reads']}
            />
          )}
        </>
      )}
    </section>
  )
}

function toBar (count: { at: string, reads: number, not_modified: number }, per: Period): Bar {
  const { at, reads, not_modified: notModified } = count
  return { at, name: FORMATS[per].format(new Date(at)), value: reads + notModified }
}
