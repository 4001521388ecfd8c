import { join } from 'node:path';
import { damage, ledgerFailure } from '../failures.ts';
import { LedgerReadError } from '../ledger.ts';
import { readBatchesFrom } from '../leveldb/batch-walk.ts';
import { readHead } from '../leveldb/head-file.ts';
import { readIdentity } from '../leveldb/identity.ts';
import { KEY_SPACE, keysOf, keyText } from '../leveldb/keys.ts';
import { segmentName } from '../leveldb/segment-names.ts';
import { type Contents, readContents, type SegmentSummary, walkEntries } from '../leveldb/state.ts';
import type { CopiedBatch, CopyOptions, CopyOrigin } from '../postgres/begin-copy.ts';
import { type CopyProgress, type CopyReport, copyToStream } from '../postgres/stream-copy.ts';
import { type InspectedSegment, type LedgerInspection, openInspection } from './inspection.ts';

/**
 * Copies the ledger of a stopped operator into a stream of a database; see {@link copyToStream}.
 * Throws a LedgerReadError at a failure.
 */
export async function copyToDatabase(
  directory: string,
  options: CopyOptions,
  onProgress?: (progress: CopyProgress) => void,
): Promise<CopyReport> {
  // The inspection's lock keeps operators out.
  const inspection = await openInspection(directory);
  try {
    return await copyToStream(options, await openOrigin(inspection, directory), onProgress);
  } finally {
    await inspection.close();
  }
}

async function openOrigin(inspection: LedgerInspection, directory: string): Promise<CopyOrigin> {
  const newest = inspection.paths.at(-1);
  if (newest === undefined || newest === directory) {
    const text = `migrate: not the directory of a ledger: "${directory}"`;
    throw new LedgerReadError(ledgerFailure('invalid', text));
  }
  const identity = await readIdentity(directory);
  if (identity === undefined) throw damage(directory, 'IDENTITY is missing');
  const active = await inspection.open(newest);
  const contents = await readContents(active.database, active.name);
  const { segment, lowWater, horizon, lastWindowEnd } = contents.state;
  await refuseOldHead(directory, contents);
  const segments = [...contents.sealed.filter(({ givenUp }) => givenUp !== true), segment];
  return {
    name: 'DATA_DIR',
    beginning: {
      ledgerId: identity.ledgerId,
      createdAt: Date.parse(identity.createdAt),
      lowWater,
      chain: segments[0]?.firstChain ?? segment.firstChain,
      linkedFrom: contents.state.link?.from ?? segment.lastSequence + 1,
    },
    head: segment.lastSequence,
    chain: segment.chain,
    horizon,
    lastWindowEnd,
    cursors: [...contents.cursors.values()],
    batches: (after) => batchesOf({ inspection, directory, segments }, after),
    records: () => recordsOf({ inspection, directory, segments }, active),
  };
}

async function refuseOldHead(directory: string, { state }: Contents): Promise<void> {
  const { segment, batch } = state;
  const head = await readHead(directory);
  if (head.sequence <= segment.lastSequence && head.batch <= batch) return;
  const text = `the newest events are missing: ${head.sequence} expected, found: "${segment.lastSequence}"`;
  throw damage('HEAD', `${text}; start the operator on it once to skip their numbers`);
}

interface Directory {
  readonly inspection: LedgerInspection;
  readonly directory: string;
  /** The active segment is last. */
  readonly segments: readonly SegmentSummary[];
}

async function* batchesOf(
  { inspection, directory, segments }: Directory,
  after: number,
): AsyncGenerator<CopiedBatch, void, void> {
  for (const { firstSequence, lastSequence, firstChain } of segments) {
    let from = Math.max(firstSequence, after + 1);
    if (lastSequence < from) continue;
    const segment = await inspection.open(join(directory, segmentName(firstSequence)));
    const { database, name } = segment;
    try {
      for await (const { mark, entries } of readBatchesFrom(database, name, from, lastSequence)) {
        yield {
          ...mark,
          firstSequence: from,
          events: entries.map(({ event, text }) => ({ event, text })),
          ...(from === firstSequence && { chainBefore: firstChain }),
        };
        from = mark.lastSequence + 1;
      }
    } finally {
      await inspection.done(segment);
    }
  }
}

/** The records, then the evidence of each segment. */
async function* recordsOf(
  { inspection, directory, segments }: Directory,
  { database, name }: InspectedSegment,
): AsyncGenerator<readonly [key: string, value: string], void, void> {
  for await (const [key, , body] of walkEntries(database, name, keysOf(KEY_SPACE.record))) {
    yield [keyText(key), body.toString()];
  }
  for (const { firstSequence } of segments) {
    const segment = await inspection.open(join(directory, segmentName(firstSequence)));
    const evidence = keysOf(KEY_SPACE.evidence);
    try {
      for await (const [key, , body] of walkEntries(segment.database, segment.name, evidence)) {
        yield [keyText(key), body.toString()];
      }
    } finally {
      await inspection.done(segment);
    }
  }
}
