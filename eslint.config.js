import neostandard, { resolveIgnoresFromGitignore } from 'neostandard'

export default [
  // The formatter (dprint.json) owns the layout.
  ...neostandard({
    ts: true,
    noStyle: true,
    ignores: [...resolveIgnoresFromGitignore(), 'packages/client/src/api.ts'] // generated
  }),
  {
    // Undocumented names of Node stay in one file, each with a fallback. `_count` and `_min` are Prisma's.
    files: ['src/**/*.ts'],
    ignores: ['src/http/hardening/node-internals.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        ...[
          'MemberExpression[property.name=/^_/]',
          'ObjectPattern > Property[key.name=/^_(?!(?:count|min)$)/]',
          'MemberExpression[property.name=/^(assignSocket|detachSocket|shouldKeepAlive|outputData)$/]'
        ].map((selector) => ({
          selector,
          message: 'Undocumented names of Node are used in src/http/hardening/node-internals.ts only'
        }))
      ]
    }
  },
  {
    // SQL is in repositories, where a test compares each statement with the type of its rows.
    files: ['src/**/*.ts'],
    ignores: ['**/*-repository.ts'],
    rules: {
      'no-restricted-imports': ['error', {
        patterns: [{
          regex: '/statement\\.ts$',
          importNames: ['statement'],
          message: 'Statements are defined in *-repository.ts files only'
        }]
      }]
    }
  },
  {
    rules: {
      'max-len': ['error', {
        code: 110,
        ignoreUrls: true,
        // Texts of several lines, such as those of mails.
        ignoreTemplateLiterals: true,
        // The documentation names tests by their titles, which stay in one piece.
        ignorePattern: '^\\s*(await )?(t\\.test|onEachStore)\\(',
        ignoreRegExpLiterals: true
      }]
    }
  }
]
