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
    if (meant === undefined && (!isInFile || OF_OTHER_PROGRAMS.test(name))) return []
    const hint = meant === undefined ? '' : `: did you mean ${meant}?`
    const place = isInFile ? '.env' : 'the environment'
    return [{ sentence: `${name} in ${place} is not a setting${hint}`, isMisspelt: meant !== undefined }]
  })
}

function closestTo (name: string, settings: readonly string[]): string | undefined {
  const allowed = name.length < LONG_NAME ? 1 : 2
  return settings
    .filter((setting) => Math.abs(setting.length - name.length) <= allowed)
    .map((setting) => ({ setting, distance: countEdits(name.toUpperCase(), setting) }))
    .filter(({ distance }) => distance <= allowed)
    .sort((a, b) => a.distance - b.distance)[0]?.setting
}

/** The Levenshtein distance of two words; two neighbours that have changed places count as one edit. */
function countEdits (from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= from.length; row++) {
    rows.push([row])
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      rows[row]?.push(Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Infinity
      ))
    }
  }
  return at(from.length, to.length)
}
