import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunningOperator } from '../scale/shipped-operator.ts';

/** What a process holds at a moment. */
export interface Holdings {
  /** Memory that is no file's, MiB. */
  readonly anonymous_mib: number;
  /** JavaScript heap and buffers in use after a full collection, MiB. */
  readonly heap_mib: number;
  readonly descriptors: number;
  /** Of the ledger's files, MiB. */
  readonly ledger_mib: number;
  /** Of the files of sums for the API, MiB. */
  readonly sums_mib: number;
}

export const HOLDINGS = [
  'anonymous_mib',
  'heap_mib',
  'descriptors',
  'ledger_mib',
  'sums_mib',
] as const satisfies readonly (keyof Holdings)[];

const MEBIBYTE = 1024 * 1024;
/** The folder in the data directory beside the ledger. */
const SUMS = 'usage';

export async function holdingsOf(operator: RunningOperator, data: string): Promise<Holdings> {
  const { heapUsed, external } = await operator.query<NodeJS.MemoryUsage>('heap');
  const all = await mebibytesIn(data);
  const sums = await mebibytesIn(join(data, SUMS));
  return {
    anonymous_mib: operator.residentMiB('RssAnon'),
    heap_mib: (heapUsed + external) / MEBIBYTE,
    descriptors: operator.descriptors(),
    ledger_mib: all - sums,
    sums_mib: sums,
  };
}

/** Of all files below a directory; those that go away meanwhile do not count. */
async function mebibytesIn(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(
    () => [],
  );
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) =>
      stat(join(parentPath, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0) / MEBIBYTE;
}
