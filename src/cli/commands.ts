// What can be done from the command line. Each command is loaded when it is run: `--help` needs no database client.

/** What a command is given. */
export interface Input {
  readonly operands: readonly string[]
  /** Whether the result is wanted as JSON. */
  readonly json: boolean
}

export interface Command {
  /** One word, or two: a group and what is done in it. */
  readonly name: string
  /** Its operands, as help shows them. */
  readonly usage: string
  /** Least and most operands. */
  readonly operands: readonly [least: number, most: number]
  /** Whether it has `--json`. */
  readonly json?: true
  /** One line. */
  readonly summary: string
  /** More lines, for its own help. */
  readonly details: string
  /** Whether its help lists the settings. */
  readonly listsSettings?: true
  /** What comes before the message when it fails, unless the message says it all. */
  readonly failure?: { readonly settings: string, readonly failed: string }
  /** Gives what runs it: it resolves to the exit code, or to undefined when the process ends by itself. */
  readonly load: () => Promise<(input: Input) => Promise<number | undefined>>
}

const failureOf = (name: string) => ({ settings: "These settings can't be used:", failed: `The ${name} failed: ` })

export const COMMANDS: readonly Command[] = [
  {
    name: 'serve',
    usage: '',
    operands: [0, 0],
    summary: 'run the service, until Ctrl-C or SIGTERM',
    details: 'Requests in flight are finished first; a second signal cuts them off.',
    listsSettings: true,
    failure: { settings: "Landfall can't start with these settings:", failed: 'Landfall could not start: ' },
    load: async () => (await import('./serve.ts')).serveCommand
  },
  {
    name: 'migrate',
    usage: '',
    operands: [0, 0],
    summary: 'bring the database up to date',
    details: `Applies the migrations that the database lacks, under a lock: of several that run at once one applies them. The
service does so by itself when it starts, unless MIGRATE_ON_START=false.`,
    load: async () => (await import('./migrate.ts')).migrateCommand
  },
  {
    name: 'backup',
    usage: 'DIR',
    operands: [1, 1],
    summary: 'copy database and uploads to DIR, a new folder',
    details: `The service may be running. PostgreSQL's pg_dump has to be on the PATH when DATABASE_URL is set. The copy holds
everything that is secret about your users; JWT_SECRET is not in it when it is a setting.`,
    failure: failureOf('backup'),
    load: async () => (await import('./backup.ts')).backupCommand
  },
  {
    name: 'restore',
    usage: 'DIR',
    operands: [1, 1],
    summary: 'put the backup in DIR into the empty database and folders of the settings',
    details: `No service may be running on them. PostgreSQL's pg_restore has to be on the PATH when DATABASE_URL is set. Nothing is
ever restored over anything.`,
    failure: failureOf('restore'),
    load: async () => (await import('./backup.ts')).restoreCommand
  },
  {
    name: 'verify',
    usage: '[DIR]',
    operands: [0, 1],
    summary: 'check that every asset has its file and every file its asset',
    details: 'Of the service, which may be running, or of the backup in DIR. Lists what is wrong and ends with 1 then.',
    failure: failureOf('verify'),
    load: async () => (await import('./backup.ts')).verifyCommand
  },
  {
    name: 'users list',
    usage: '',
    operands: [0, 0],
    json: true,
    summary: 'list the accounts, the oldest first',
    details: 'With how many pages, assets and sessions that have not ended each has.',
    load: async () => (await import('./users.ts')).listCommand
  },
  {
    name: 'users create',
    usage: 'EMAIL',
    operands: [1, 1],
    json: true,
    summary: 'create an account',
    details: `Asks for the password twice on a terminal, and reads it from standard input elsewhere:

  npx landfall users create you@example.com < password-file`,
    load: async () => (await import('./users.ts')).createCommand
  },
  {
    name: 'users set-password',
    usage: 'EMAIL',
    operands: [1, 1],
    json: true,
    summary: 'give an account another password, and sign it out everywhere',
    details: `Asks for the password twice on a terminal, and reads it from standard input elsewhere:

  npx landfall users set-password you@example.com < password-file`,
    load: async () => (await import('./users.ts')).setPasswordCommand
  },
  {
    name: 'users sign-out',
    usage: 'EMAIL',
    operands: [1, 1],
    json: true,
    summary: 'end all sessions of an account, at once and on all replicas',
    details: 'Its access tokens and refresh tokens are refused from then on.',
    load: async () => (await import('./users.ts')).signOutCommand
  }
]
