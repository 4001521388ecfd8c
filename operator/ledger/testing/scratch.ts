import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** An empty directory, and the function that deletes it. */
export async function scratchDirectory(): Promise<{
  readonly path: string;
  readonly remove: () => Promise<void>;
}> {
  const path = await mkdtemp(join(tmpdir(), 'ledger-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}
