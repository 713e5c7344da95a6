// The public interface of the module.

export { default as cdn } from './plugin.ts'
export { queueFilePurge } from './purge-repository.ts'
