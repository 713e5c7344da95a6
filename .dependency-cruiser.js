// `npm run lint` checks the layers of src/: which way imports go. Type imports count, too.
//
//   cli  cluster  server  app   put the service together
//   modules                     what the service is about; each is used through its index.ts
//   http                        what every module needs of HTTP
//   infra                       PostgreSQL, Redis, telemetry, the operating system
//   errors  config  settings
//
// A file may import its own layer and the layers below it.

const TOP = '^src/(cli|cluster)/|^src/(app|server)\\.ts$'

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    {
      name: 'no-circular-files',
      severity: 'error',
      from: {},
      to: { circular: true }
    },
    {
      name: 'no-circular-folders',
      severity: 'error',
      scope: 'folder',
      from: {},
      to: { circular: true }
    },
    {
      name: 'top-is-imported-by-nobody-below',
      comment: 'Only cli, cluster, server and app put the service together.',
      severity: 'error',
      from: { path: '^src/', pathNot: TOP },
      to: { path: TOP }
    },
    {
      name: 'http-imports-no-module',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/modules/' }
    },
    {
      name: 'infra-imports-only-infra-errors-config',
      severity: 'error',
      from: { path: '^src/infra/' },
      to: { path: '^src/', pathNot: '^src/(infra/|errors\\.ts$|config\\.ts$)' }
    },
    {
      name: 'errors-and-config-import-nothing-of-src',
      severity: 'error',
      from: { path: '^src/(errors|config|settings|setting-types)\\.ts$' },
      to: { path: '^src/', pathNot: '^src/(errors|config|settings|setting-types)\\.ts$' }
    },
    {
      name: 'module-through-its-index-only',
      comment: 'A module is used from outside through its index.ts.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(modules|cli/backup)/' },
      to: { path: '^src/modules/[^/]+/', pathNot: '^src/modules/[^/]+/index\\.ts$' }
    },
    {
      name: 'backups-use-storage-and-repositories',
      comment: 'A backup needs the files and the rows of modules. Loading their routes takes 0.3 s.',
      severity: 'error',
      from: { path: '^src/cli/backup/' },
      to: { path: '^src/modules/', pathNot: '^src/modules/[^/]+/(storage/|[^/]*-repository\\.ts$)' }
    },
    {
      name: 'module-through-its-index-from-modules',
      comment: 'A module uses another one through its index.ts.',
      severity: 'error',
      from: { path: '^src/modules/([^/]+)/' },
      to: { path: '^src/modules/[^/]+/', pathNot: '^src/modules/($1/|[^/]+/index\\.ts$)' }
    },
    {
      name: 'mail-imports-nothing-of-accounts',
      comment: 'Accounts queue mails. The mail does not know accounts.',
      severity: 'error',
      from: { path: '^src/modules/accounts/mail/' },
      to: { path: '^src/modules/', pathNot: '^src/modules/accounts/mail/' }
    },
    {
      name: 'packages-import-no-src',
      severity: 'error',
      from: { path: '^packages/' },
      to: { path: '^src/' }
    },
    {
      name: 'src-imports-no-client',
      comment: 'Except for the command line, whose owner commands call the API.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/cli/' },
      to: { path: '^packages/client/' }
    },
    {
      name: 'src-imports-no-console',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^console/' }
    },
    {
      name: 'json-text-imports-nothing',
      severity: 'error',
      from: { path: '^packages/json-text/' },
      to: { pathNot: '^packages/json-text/' }
    },
    {
      name: 'console-core-imports-only-core',
      comment: 'In the console: app → screens → components → core.',
      severity: 'error',
      from: { path: '^console/src/core/' },
      to: { path: '^console/src/', pathNot: '^console/src/core/' }
    },
    {
      name: 'console-editor-and-fields-import-only-json',
      severity: 'error',
      from: { path: '^console/src/(editor|fields|json)/' },
      to: { path: '^console/src/', pathNot: '^console/src/($1|json)/' }
    },
    {
      name: 'console-components-import-no-screens',
      severity: 'error',
      from: { path: '^console/src/components/' },
      to: { path: '^console/src/(screens|app)/' }
    },
    {
      name: 'console-screens-import-no-app',
      severity: 'error',
      from: { path: '^console/src/screens/' },
      to: { path: '^console/src/app/' }
    },
    {
      name: 'bench-imports-what-tests-share-with-it',
      severity: 'error',
      from: { path: '^bench/' },
      to: { path: '^test/', pathNot: '^test/shared/' }
    },
    {
      name: 'test-shared-imports-no-tests',
      severity: 'error',
      from: { path: '^test/shared/' },
      to: { path: '^(test|bench)/', pathNot: '^test/shared/' }
    },
    {
      name: 'console-imports-the-client-only',
      severity: 'error',
      from: { path: '^console/' },
      to: { path: '^(src|bench|test)/' }
    }
  ],
  options: {
    includeOnly: { path: '^(src|packages|scripts|console|bench|test)/' },
    exclude: { path: '^src/infra/postgres/generated/|/dist/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['types', 'import', 'node', 'default']
    }
  }
}
