import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checksumOf, sealValue, keySeed } from '../checked-value.ts';
import { createDatabase, type Database, type Operation, writeBatch } from './database.ts';
import type { Failpoints } from './failpoints.ts';
import { damage } from '../failures.ts';
import { renameDurably } from './files.ts';
import { ENTRY_SPACES, KEY_SPACE, keysOf, numberKey, STATE_KEY } from './keys.ts';
import { NEXT_DIRECTORY, segmentName } from './segment-names.ts';
import {
  type Contents,
  walkEntries,
  addEntry,
  encodeState,
  NO_ENTRIES,
  type SealedSegment,
} from './state.ts';

const COPY_BATCH_BYTES = 1024 * 1024;

/** The contents after sealing the active segment and beginning one at `firstSequence`. */
export function planRoll(
  before: Contents,
  firstSequence: number,
  now: number,
  damage?: string,
): Contents {
  const { state } = before;
  const line: SealedSegment = {
    ...state.segment,
    sealedAt: now,
    ...(damage !== undefined && { damage }),
  };
  const value = sealValue(keySeed(lineKey(line)), JSON.stringify(line));
  return {
    ...before,
    sealed: [...before.sealed, line],
    state: {
      ...state,
      batch: state.batch + 1,
      segment: {
        firstSequence,
        lastSequence: firstSequence - 1,
        firstChain: state.segment.chain,
        chain: state.segment.chain,
        openedAt: now,
        bytes: 0,
        foreignIds: false,
      },
      entries: addEntry(state.entries, checksumOf(value)),
    },
  };
}

/**
 * Prepares the planned segment with a copy of all entries and renames it into place. The rename is
 * the switch: before it the old segment is active, after it the new one.
 */
export async function createPlannedSegment(
  directory: string,
  source: Database,
  sourceName: string,
  planned: Contents,
  failpoint: Failpoints,
): Promise<void> {
  const draft = join(directory, NEXT_DIRECTORY);
  await failpoint('roll:before-create');
  await rm(draft, { recursive: true, force: true });
  try {
    await fillDraft(draft, source, sourceName, planned, failpoint);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw error;
  }
  await failpoint('roll:before-rename');
  await renameDurably(draft, join(directory, segmentName(planned.state.segment.firstSequence)));
  await failpoint('roll:after-rename');
}

async function fillDraft(
  draft: string,
  source: Database,
  sourceName: string,
  planned: Contents,
  failpoint: Failpoints,
): Promise<void> {
  const database = await createDatabase(draft);
  try {
    await copyEntries(source, sourceName, database, planned, failpoint);
  } finally {
    await database.close();
  }
}

async function copyEntries(
  source: Database,
  sourceName: string,
  target: Database,
  planned: Contents,
  failpoint: Failpoints,
): Promise<void> {
  let sum = NO_ENTRIES;
  let operations: Operation[] = [];
  let bytes = 0;
  const put = (key: Buffer, value: Buffer): void => {
    operations.push({ type: 'put', key, value });
    bytes += key.length + value.length;
    sum = addEntry(sum, checksumOf(value));
  };
  for (const space of ENTRY_SPACES) {
    for await (const [key, value] of walkEntries(source, sourceName, keysOf(space))) {
      put(key, value);
      if (bytes < COPY_BATCH_BYTES) continue;
      await failpoint('roll:copying');
      await writeBatch(target, operations);
      operations = [];
      bytes = 0;
    }
  }
  const line = planned.sealed.at(-1);
  if (line !== undefined)
    put(lineKey(line), sealValue(keySeed(lineKey(line)), JSON.stringify(line)));
  if (sum.count !== planned.state.entries.count || sum.sum !== planned.state.entries.sum) {
    throw damage(sourceName, 'records or cursors are lost or out of date');
  }
  operations.push({ type: 'put', key: STATE_KEY, value: encodeState(planned.state) });
  await writeBatch(target, operations);
}

function lineKey(line: SealedSegment): Buffer {
  return numberKey(KEY_SPACE.sealed, line.firstSequence);
}
