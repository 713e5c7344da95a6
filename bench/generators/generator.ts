import type { Guardian } from '../../test/shared/guardian.ts'
import { findProgram } from '../machine.ts'
import { autocannonGenerator } from './autocannon.ts'
import type { Generator, GeneratorName } from './types.ts'
import { wrkGenerator } from './wrk.ts'

/** Returns wrk where it is installed, otherwise autocannon. */
export function findGenerator (wanted: GeneratorName | undefined, guardian: Guardian): Generator {
  const wrk = wanted === 'autocannon' ? undefined : findProgram('wrk')
  if (wrk !== undefined) return wrkGenerator(wrk, guardian)
  if (wanted === 'wrk') throw new Error('wrk is not installed')
  return autocannonGenerator(guardian)
}
