import { readFileSync, writeFileSync } from 'node:fs'
import { ratioToBare } from './verdicts.ts'
import type { BenchResult } from './results.ts'

// Draws the ratios as a picture: node --import=tsx bench/svg.ts FILE.json FILE.svg

const WIDTH = 720
const LABELS = 330
const VALUES = 44
const ROW = 24
const BAR = 14
const TOP = 54

/** Colours that are readable on light and dark backgrounds. */
const STYLE = `
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.note { fill: #656d76; font-size: 11px }
.bar { fill: #8c959f }
.ours { fill: #1f7a6d }
.whisker { stroke: #1f2328; stroke-width: 1.2; fill: none }
.grid { stroke: #8c959f; stroke-opacity: .25 }
.one { stroke: #bc4c00; stroke-width: 1.2; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .note { fill: #9198a1 }
  .bar { fill: #6e7681 }
  .ours { fill: #2fa392 }
  .whisker { stroke: #e6edf3 }
  .one { stroke: #f0883e }
}`

/** Draws a bar for each contender: its rate relative to bare Fastify, with the quartiles as a whisker. */
export function drawRatios (result: BenchResult): string {
  const bars = result.contenders.flatMap((contender) => {
    // The rate of several processes is comparable only after the scaling in verdicts.ts.
    const isScaled = contender.targets.some((target) => target.metric === 'rate' && target.perCore === true)
    const ratio = contender.id === contender.bare || contender.bare === 'bare-open' || isScaled
      ? undefined : ratioToBare(contender, result)
    return ratio === undefined ? [] : [{ name: contender.name, ratio }]
  })
  const greatest = Math.max(1.1, ...bars.map(({ ratio }) => ratio.upper))
  const step = [0.25, 0.5, 1, 2, 5, 10, 50].find((size) => greatest / size <= 8) ?? 100
  const scale = (WIDTH - LABELS - VALUES) / (Math.ceil(greatest / step) * step)
  const x = (ratio: number): string => (LABELS + ratio * scale).toFixed(1)
  const bottom = TOP + bars.length * ROW
  const height = bottom + 44

  const grid = Array.from({ length: Math.ceil(greatest / step) + 1 }, (_, index) => index * step).map((
    ratio
  ) =>
    `<line class="grid" x1="${x(ratio)}" x2="${x(ratio)}" y1="${TOP - 6}" y2="${bottom}"/>` +
    `<text class="note" x="${x(ratio)}" y="${bottom + 15}" text-anchor="middle">${ratio}</text>`
  )
  const rows = bars.map(({ name, ratio: { median, lower, upper } }, index) => {
    const middle = TOP + index * ROW + ROW / 2
    return `<text x="${LABELS - 8}" y="${middle + 4}" text-anchor="end">${escape(name)}</text>` +
      `<rect class="${name.startsWith('ours') ? 'ours' : 'bar'}" x="${LABELS}" y="${
        middle - BAR / 2
      }" width="${Math.max(1, median * scale).toFixed(1)}" height="${BAR}" rx="2"/>` +
      `<path class="whisker" d="M${x(lower)} ${middle}H${x(upper)}M${x(lower)} ${middle - 4}v8M${x(upper)} ${
        middle - 4
      }v8"/>` +
      `<text x="${(Number(x(Math.max(median, upper))) + 6).toFixed(1)}" y="${middle + 4}">${
        median.toFixed(median < 0.1 ? 3 : 2)
      }</text>`
  })
  const { machine, options } = result
  const conditions = `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; ${
    result.generator.split(' (')[0]
  }, ${options.connections} connections; medians and quartiles of ${options.rounds} rounds`
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="Requests per second as a multiple of bare Fastify's">
<style>${STYLE}
</style>
<text class="title" x="12" y="22">Requests per second, as a multiple of bare Fastify’s</text>
<text class="note" x="12" y="39">One process; 1 is a Fastify route that returns a constant buffer of the same size</text>
${grid.join('\n')}
<line class="one" x1="${x(1)}" x2="${x(1)}" y1="${TOP - 6}" y2="${bottom}"/>
${rows.join('\n')}
<text class="note" x="12" y="${height - 8}">${escape(conditions)}</text>
</svg>
`
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

if (process.argv[1] === import.meta.filename) {
  const [from, to] = process.argv.slice(2)
  if (from === undefined || to === undefined) {
    process.stderr.write('usage: node --import=tsx bench/svg.ts FILE.json FILE.svg\n')
    process.exitCode = 1
  } else {
    writeFileSync(to, drawRatios(JSON.parse(readFileSync(from, 'utf8')) as BenchResult))
  }
}
