import { formatNumber } from '../../components/format.tsx'

const WIDTH = 96
const HEIGHT = 24
/** Room for the width of the line. */
const MARGIN = 2

/** How often a page was read in each of the last hours, as a line, with the sum in words. */
export function ReadsLine ({ reads }: { readonly reads: readonly number[] }) {
  const sum = reads.reduce((total, count) => total + count, 0)
  const highest = Math.max(1, ...reads)
  const points = reads.map((count, index) => {
    const x = MARGIN + index / (reads.length - 1) * (WIDTH - 2 * MARGIN)
    const y = HEIGHT - MARGIN - count / highest * (HEIGHT - 2 * MARGIN)
    return `${x.toFixed(1)},${y.toFixed(1)}`
  })
  return (
    <span class='reads-line' title={`At most ${formatNumber(Math.max(...reads))} in an hour`}>
      <svg class='reads-line__chart' viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden='true'>
        <polyline points={points.join(' ')} />
      </svg>
      <span class='reads-line__sum'>
        <span>{formatNumber(sum)} {sum === 1 ? 'read' : 'reads'}</span> <span>in 24 hours</span>
      </span>
    </span>
  )
}
