export default {
  // Next.js would take the folder of the outermost lock file.
  turbopack: { root: import.meta.dirname },
  // A restart forgets which pages have changed, so it must forget the pages, too.
  experimental: { isrFlushToDisk: false },
  // The address of a preview contains its token.
  headers: async () => [{
    source: '/api/preview',
    headers: [{ key: 'Referrer-Policy', value: 'no-referrer' }]
  }]
}
