import { readdirSync, readFileSync } from 'node:fs'

/** Returns the ids of a process's children, as Linux lists them. */
export const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  )
