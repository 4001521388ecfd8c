import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { FIRST_CHAIN } from './chain.ts';
import { createDatabase, writeBatch } from './database.ts';
import type { Failpoints } from './failpoints.ts';
import { syncDirectory } from './files.ts';
import { createHeadFile } from './head-file.ts';
import { FORMAT, type Identity, writeIdentity } from './identity-file.ts';
import { STATE_KEY } from './keys.ts';
import { NEXT_DIRECTORY, segmentName } from './segment-names.ts';
import { encodeState, type LedgerState, NO_ENTRIES } from './state.ts';

const FIRST_SEQUENCE = 1;

/**
 * Sets up a ledger in a directory that has none. The first segment waits in `next/`: once IDENTITY
 * is written the ledger exists, and whoever opens it puts the segment in its place.
 */
export async function setUpLedger(
  directory: string,
  now: number,
  failpoint: Failpoints,
): Promise<Identity> {
  const identity: Identity = {
    ledgerId: randomUUID(),
    format: FORMAT,
    createdAt: new Date(now).toISOString(),
  };
  const draft = join(directory, NEXT_DIRECTORY);
  await rm(draft, { recursive: true, force: true });
  const database = await createDatabase(draft);
  const value = encodeState(firstState(identity.ledgerId, now));
  await writeBatch(database, [{ type: 'put', key: STATE_KEY, value }]);
  await database.close();
  await syncDirectory(directory);
  await failpoint('set-up:before-head');
  await createHeadFile(directory, {
    epoch: 0,
    batch: 0,
    sequence: 0,
    chain: FIRST_CHAIN,
    segment: segmentName(FIRST_SEQUENCE),
  });
  await failpoint('set-up:before-identity');
  await writeIdentity(directory, identity);
  await failpoint('set-up:after-identity');
  return identity;
}

/** The state of a ledger without any event. */
export function firstState(ledgerId: string, now: number): LedgerState {
  return {
    ledgerId,
    batch: 0,
    segment: {
      firstSequence: FIRST_SEQUENCE,
      lastSequence: FIRST_SEQUENCE - 1,
      firstChain: FIRST_CHAIN,
      chain: FIRST_CHAIN,
      openedAt: now,
      bytes: 0,
      foreignIds: false,
    },
    lowWater: 0,
    horizon: 0,
    entries: NO_ENTRIES,
  };
}
