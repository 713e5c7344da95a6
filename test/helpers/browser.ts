import { chromium, type Browser } from 'playwright-core'
import type { Teardown } from './servers.ts'

const QUIET = [
  '--headless',
  '--lang=en-US', // not that of the machine
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync'
]

/**
 * Starts Chromium, which contacts nobody by itself. The end of the test ends it.
 *
 * @param program `provide('chromium')`, which must stand in the test file
 */
export async function startBrowser (t: Teardown, program: string, ...args: string[]): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: program, args: [...QUIET, ...args] })
  t.teardown(async () => await browser.close())
  return browser
}
