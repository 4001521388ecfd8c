import { LedgerReadError } from '../ledger.ts';
import { createHeadFile, type Head, readHead } from '../leveldb/head-file.ts';
import { readIdentity } from '../leveldb/identity.ts';
import { openInspection } from './inspection.ts';
import { type Anchor, verifyDirectory } from './verify.ts';

/**
 * Rebuilds a missing or damaged HEAD of a stopped operator's ledger and returns its content. Only
 * HEAD shows that the newest segment or batches are lost, so an `anchor` from elsewhere is the only
 * proof that they are there. `now` is the wall clock, milliseconds. Throws without writing if:
 * - HEAD can be read;
 * - anything else is damaged;
 * - the chain does not pass through the anchor.
 */
export async function rebuildHead(directory: string, now: number, anchor?: Anchor): Promise<Head> {
  if ((await readIdentity(directory)) === undefined) throw new Error(`no ledger: "${directory}"`);
  if (await isReadable(directory)) throw new Error('HEAD can be read: nothing is rebuilt');
  const { errors } = await verifyDirectory(directory, anchor, 'without HEAD');
  if (errors.length > 0) {
    throw new Error(`HEAD is not rebuilt, the ledger is not intact: ${errors.join('; ')}`);
  }
  const inspection = await openInspection(directory);
  try {
    const path = inspection.paths.at(-1);
    if (path === undefined) throw new Error(`HEAD is not rebuilt, no segment: "${directory}"`);
    const { name, state } = await inspection.open(path);
    const { batch, segment } = state;
    const { lastSequence: sequence, chain } = segment;
    // Epochs grow by one per start, so no earlier epoch is as large.
    const epoch = Math.floor(now / 1_000);
    const head: Head = { epoch, batch, sequence, chain, segment: name };
    await createHeadFile(directory, head);
    return head;
  } finally {
    await inspection.close();
  }
}

async function isReadable(directory: string): Promise<boolean> {
  try {
    await readHead(directory);
    return true;
  } catch (error) {
    if (error instanceof LedgerReadError) return false;
    throw error;
  }
}
