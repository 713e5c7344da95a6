import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Guardian } from '../../test/shared/guardian.ts'
import { runChild } from './child.ts'
import { ADDRESS, requestText } from './load.ts'
import type { Counts, Generator } from './types.ts'

// Separates the requests in a file. Requests don't contain it.
const RECORD = '\x1e'

/**
 * Requests are prepared texts, so many different requests cost wrk little more than one. A load with random
 * addresses has one text, to which each request adds an address. There is no `response` callback, because wrk
 * would then pass every header to Lua at half the speed.
 */
const SCRIPT = `
local folder
local requests, position, last = {}, 0, 0

local function read (name)
  local file = io.open(folder .. '/' .. name, 'rb')
  if not file then return nil end
  local text = file:read('*a')
  file:close()
  return text
end

function init (args)
  folder, position = args[1], tonumber(args[2])
  for request in read('requests'):gmatch('[^\\30]+') do requests[#requests + 1] = request end
  local drawn = read('order')
  if drawn then
    local order = {}
    for index in drawn:gmatch('%d+') do order[#order + 1] = requests[tonumber(index) + 1] end
    requests = order
  end
  last = #requests
  if args[3] then
    local addresses, octets = tonumber(args[3]), {}
    math.randomseed(position)
    for number = 0, 255 do octets[number] = tostring(number) end
    local from, to = requests[1]:find('${ADDRESS}', 1, true)
    local before, after = requests[1]:sub(1, from - 1) .. '10.', requests[1]:sub(to + 1)
    request = function ()
      local number = math.random(addresses) - 1
      local low = number % 256
      local high = (number - low) / 256
      local middle = high % 256
      return before .. octets[(high - middle) / 256] .. '.' .. octets[middle] .. '.' .. octets[low] .. after
    end
    return
  end
  position = position % last
  if last == 1 then
    -- Without a request function wrk repeats the same text by itself.
    local only = requests[1]
    request = nil
    wrk.format = function () return only end
  end
end

function request ()
  position = position + 1
  if position > last then position = 1 end
  return requests[position]
end

function done (summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{"requests":%d,"seconds":%f,"bytes":%d,"refused":%d,"socketErrors":%d,"p50Ms":%f,"p99Ms":%f,"maxMs":%f}\\n',
    summary.requests, summary.duration / 1e6, summary.bytes, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
`

export function wrkGenerator (program: string, guardian: Guardian): Generator {
  const script = join(guardian.folder, 'wrk.lua')
  writeFileSync(script, SCRIPT)
  const folders = new Map<string, string>()
  const version = /wrk \S*?(\d+\.\d+\.\d+)/.exec(spawnSync(program, ['-v'], { encoding: 'utf8' }).stdout)?.[1]
  return {
    name: 'wrk',
    description: `wrk${version === undefined ? '' : ` ${version}`}`,
    prepare (name, load) {
      if (folders.has(name)) return
      const folder = join(guardian.folder, `load-${folders.size}`)
      folders.set(name, folder)
      mkdirSync(folder)
      writeFileSync(
        join(folder, 'requests'),
        load.requests.map((request) => requestText(request)).join(RECORD)
      )
      if (load.order !== undefined) writeFileSync(join(folder, 'order'), load.order.join('\n'))
    },
    async run (name, { port, load, start, seconds, connections, cores }) {
      const output = await runChild(
        [
          program,
          '--threads=1',
          `--connections=${connections}`,
          `--duration=${seconds}s`,
          '--timeout=10s',
          '--latency',
          `--script=${script}`,
          `http://127.0.0.1:${port}`,
          '--',
          folders.get(name) ?? '',
          String(start),
          ...load.addresses === undefined ? [] : [String(load.addresses)]
        ],
        cores,
        guardian
      )
      return JSON.parse(output.trim().split('\n').at(-1) ?? '') as Counts
    }
  }
}
