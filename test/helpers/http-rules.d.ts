export function brokenRules (response: {
  readonly method: string
  readonly url?: string
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Buffer | undefined
}): string[]
