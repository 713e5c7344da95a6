// Rows of tables as the API shows them.

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}` ?
  `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}` :
  Name

type Shown<Value> = Value extends Date ? string : Value extends bigint ? number : Value

export type RecordOf<Row> = { [Name in keyof Row & string as SnakeCase<Name>]: Shown<Row[Name]> }

const names = new Map<string, string>()

/** Turns `createdAt` into `created_at`. The names are those of columns, so there are few. */
function snakeCase (name: string): string {
  const known = names.get(name) ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  names.set(name, known)
  return known
}

const show = (value: unknown): unknown =>
  value instanceof Date ? value.toISOString() : typeof value === 'bigint' ? Number(value) : value

/** Converts a row. The schema of the response leaves out the columns that it doesn't have. */
export const recordOf = <Row extends object>(row: Row): RecordOf<Row> =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [snakeCase(name), show(value)])) as RecordOf<
    Row
  >
