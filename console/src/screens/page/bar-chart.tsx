import { formatNumber } from '../../components/format.tsx'

export interface Bar {
  /** A time in ISO 8601. */
  readonly at: string
  readonly name: string
  readonly value: number
}

interface BarChartProps {
  readonly bars: readonly Bar[]
  readonly label: string
  /** The heads of the table. */
  readonly columns: readonly [name: string, value: string]
}

const WIDTH = 720
const HEIGHT = 200
const GAP = 4
/** So that a bar of a small number can be seen. */
const MIN_HEIGHT = 3

/** Bars over time, with a table of the same numbers. */
export function BarChart ({ bars, label, columns }: BarChartProps) {
  const highest = bars.reduce((max, bar) => bar.value > max.value ? bar : max, bars[0] as Bar)
  const step = WIDTH / bars.length
  const heightOf = (value: number) =>
    value === 0 ? 0 : Math.max(MIN_HEIGHT, Math.round(HEIGHT * value / highest.value))
  return (
    <figure class='bar-chart'>
      <p class='bar-chart__max quiet' aria-hidden>{formatNumber(highest.value)}</p>
      <svg
        class='bar-chart__bars'
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio='none'
        role='img'
        aria-label={`${label}. The most were ${formatNumber(highest.value)}: ${highest.name}.`}
      >
        {bars.map(({ at, name, value }, index) => (
          <rect
            class='bar-chart__bar'
            x={index * step + GAP / 2}
            y={HEIGHT - heightOf(value)}
            width={step - GAP}
            height={heightOf(value)}
            key={at}
          >
            <title>{`${name}: ${formatNumber(value)}`}</title>
          </rect>
        ))}
      </svg>
      <p class='bar-chart__ends quiet' aria-hidden>
        <span>{bars[0]?.name}</span>
        <span>{bars.at(-1)?.name}</span>
      </p>
      <details class='bar-chart__table'>
        <summary>Show the numbers as a table</summary>
        <table>
          <caption class='visually-hidden'>{label}</caption>
          <thead>
            <tr>{columns.map((column) => <th scope='col' key={column}>{column}</th>)}</tr>
          </thead>
          <tbody>
            {bars.toReversed().map(({ at, name, value }) => (
              <tr key={at}>
                <th scope='row'>
                  <time dateTime={at}>{name}</time>
                </th>
                <td>{formatNumber(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  )
}
