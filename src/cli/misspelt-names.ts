import { describeSettings, FILE_SETTINGS, type Environment } from '../config.ts'

/** A variable that is not a setting. */
export interface UnknownName {
  /** Says where the name is, and which setting was probably meant. */
  readonly sentence: string
  /** Whether the name is close to the name of a setting. */
  readonly isMisspelt: boolean
}

/** Names that the Docker Compose files, Node and PostgreSQL's programs read from the same `.env`. */
const OF_OTHER_PROGRAMS =
  /^((NODE|NGINX|AWS|OTEL|COMPOSE|DOCKER|PG)_?\w+|POSTGRES_PASSWORD|PUBLISH_PORT|TLS_DIR|TZ)$/
/** The SDK's endpoints of other services of Amazon; their names are close to AWS_ENDPOINT_URL_S3. */
const OTHER_ENDPOINTS = /^AWS_ENDPOINT_URL_/
/** From this length on, a name may differ from the setting in two places instead of one. */
const LONG_NAME = 8

/**
 * Finds names in `.env` that are not settings, and names in the environment that are close to a setting's.
 *
 * @param file the variables of `.env`
 */
export function findUnknownNames (environment: Environment, file: Environment): UnknownName[] {
  const settings = [...describeSettings().map(({ name }) => name as string), ...FILE_SETTINGS]
  return Object.keys(environment).filter((name) => !settings.includes(name)).flatMap((name) => {
    const isInFile = file[name] !== undefined
    const meant = OTHER_ENDPOINTS.test(name) ? undefined : closestTo(name, settings)
    // The environment also has names of other programs, so only those close to a setting are reported.
    if (meant === undefined && (!isInFile || OF_OTHER_PROGRAMS.test(name))) return []
    const hint = meant === undefined ? '' : `: did you mean ${meant}?`
    const place = isInFile ? '.env' : 'the environment'
    return [{ sentence: `${name} in ${place} is not a setting${hint}`, isMisspelt: meant !== undefined }]
  })
}

function closestTo (name: string, settings: readonly string[]): string | undefined {
  const within = (edits: number) => settings.find((setting) => isWithin(edits, name.toUpperCase(), setting))
  return within(1) ?? (name.length < LONG_NAME ? undefined : within(2))
}

/** Whether at most `edits` edits turn one word into the other. Two swapped neighbours are one edit. */
function isWithin (edits: number, from: string, to: string): boolean {
  if (from === to) return true
  if (edits === 0) return false
  let same = 0
  while (from[same] === to[same]) same++
  const rest = (skippedInFrom: number, skippedInTo: number) =>
    isWithin(edits - 1, from.slice(same + skippedInFrom), to.slice(same + skippedInTo))
  const isSwapped = from[same] === to[same + 1] && from[same + 1] === to[same]
  return rest(1, 1) || rest(1, 0) || rest(0, 1) || (isSwapped && rest(2, 2))
}
