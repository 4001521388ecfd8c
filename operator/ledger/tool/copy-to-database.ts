import { join } from 'node:path';
import { encodeEvent } from '../../model/event.ts';
import { damage, ledgerFailure, type Problems } from '../failures.ts';
import { LedgerReadError, type RecordChange } from '../ledger.ts';
import { readBatchesFrom } from '../leveldb/batch-walk.ts';
import { readHead } from '../leveldb/head-file.ts';
import { readIdentity } from '../leveldb/identity.ts';
import { KEY_SPACE, keysOf, keyText } from '../leveldb/keys.ts';
import { segmentName } from '../leveldb/segment-names.ts';
import { type Contents, readContents, type SegmentSummary, walkEntries } from '../leveldb/state.ts';
import { missingRanges } from '../missing-ranges.ts';
import { readRecords } from '../postgres/reading.ts';
import type { CopyOptions, CopyOrigin } from '../postgres/begin-copy.ts';
import { openStreamCopy, type StreamCopy } from '../postgres/stream-copy.ts';
import { verifyStream } from '../postgres/verify.ts';
import { type InspectedSegment, type Inspection, openInspection } from './inspection.ts';

/** How far a copy has come, in sequence numbers. */
export interface CopyProgress {
  readonly copied: number;
  readonly of: number;
}

/** `finished`: an earlier run had copied everything, and an operator may have been writing the stream since. */
export type CopyReport =
  | {
      readonly kind: 'copied';
      readonly ledgerId: string;
      readonly firstSequence: number;
      readonly lastSequence: number;
      readonly chain: string;
      readonly records: number;
      readonly cursors: number;
    }
  | { readonly kind: 'finished'; readonly ledgerId: string };

/** A ledger in a directory that nobody has open. */
interface Source {
  readonly directory: string;
  readonly inspection: Inspection;
  readonly active: InspectedSegment;
  readonly contents: Contents;
  /** The segments that are read, the active one last. */
  readonly segments: readonly SegmentSummary[];
  readonly origin: CopyOrigin;
}

const PAGE_RECORDS = 500;
const QUIET: Problems = { add: () => undefined, list: () => [] };

/**
 * Copies the ledger of a stopped operator into a stream of a database: events with their numbers, ids and chain, records
 * and cursors. It may be ended at any point and run again; it then goes on where it was. An operator can take the
 * stream over once everything was compared. Throws a LedgerReadError at what fails.
 */
export async function copyToDatabase(
  directory: string,
  options: CopyOptions,
  onProgress: (progress: CopyProgress) => void = () => undefined,
): Promise<CopyReport> {
  // Keeps operators from opening it meanwhile.
  const inspection = await openInspection(directory);
  try {
    const source = await openSource(inspection, directory);
    const { ledgerId } = source.origin;
    const opened = await openStreamCopy(options, source.origin);
    if (opened.kind === 'finished') return { kind: 'finished', ledgerId };
    const { copy } = opened;
    try {
      await copyEvents(source, copy, onProgress);
      await copyEntries(source, copy);
      const records = await compare(source, copy);
      await copy.finish(source.contents.state.horizon);
      const { state, cursors } = copy.contents();
      return {
        kind: 'copied',
        ledgerId,
        firstSequence: Math.min(state.head, state.lowWater + 1),
        lastSequence: state.head,
        chain: state.chain,
        records,
        cursors: cursors.size,
      };
    } finally {
      await copy.close();
    }
  } finally {
    await inspection.close();
  }
}

async function openSource(inspection: Inspection, directory: string): Promise<Source> {
  const newest = inspection.paths.at(-1);
  if (newest === undefined || newest === directory) {
    throw refusal(`not the directory of a ledger: "${directory}"`);
  }
  const identity = await readIdentity(directory);
  if (identity === undefined) throw damage(directory, 'IDENTITY is missing');
  const active = await inspection.open(newest);
  const contents = await readContents(active.database, active.name);
  const { segment, lowWater, batch } = contents.state;
  const head = await readHead(directory);
  if (head.sequence > segment.lastSequence || head.batch > batch) {
    const text = `the newest events are missing: ${head.sequence} expected, found: "${segment.lastSequence}"`;
    throw damage('HEAD', `${text}; start the operator on it once, which leaves their numbers out`);
  }
  const segments = [...contents.sealed.filter(({ givenUp }) => givenUp !== true), segment];
  const origin: CopyOrigin = {
    ledgerId: identity.ledgerId,
    createdAt: Date.parse(identity.createdAt),
    lowWater,
    firstChain: segments[0]?.firstChain ?? segment.firstChain,
  };
  return { directory, inspection, active, contents, segments, origin };
}

async function copyEvents(
  source: Source,
  copy: StreamCopy,
  onProgress: (progress: CopyProgress) => void,
): Promise<void> {
  const { segments, contents } = source;
  const of = contents.state.segment.lastSequence;
  const { head } = copy.contents().state;
  if (head > of) throw refusal(`the stream has more events than the ledger: "${head}"`);
  if (head < contents.state.lowWater) {
    const text = `the ledger has deleted events that are not copied yet; --anew begins again: "${head}"`;
    throw refusal(text);
  }
  for (const segment of segments) {
    const { firstSequence, lastSequence, firstChain } = segment;
    const copied = copy.contents().state.head;
    if (lastSequence <= copied) continue;
    if (firstSequence - 1 > copied) await copy.skip(firstSequence - 1, firstChain);
    await copySegment(source, segment, copy, (sequence) => onProgress({ copied: sequence, of }));
  }
}

async function copySegment(
  { inspection, directory }: Source,
  { firstSequence, lastSequence }: SegmentSummary,
  copy: StreamCopy,
  onBatch: (lastSequence: number) => void,
): Promise<void> {
  const from = copy.contents().state.head + 1;
  if (from > lastSequence) return;
  const segment = await inspection.open(join(directory, segmentName(firstSequence)));
  try {
    for await (const { mark, entries } of readBatchesFrom(
      segment.database,
      segment.name,
      from,
      lastSequence,
    )) {
      const events = entries.map(({ sequence, event, text }) => {
        // Only what this release writes can be compared with it afterwards.
        if (encodeEvent(event) === text) return { event, text };
        throw damage(segment.name, `event ${sequence} is not written as this release writes it`);
      });
      await copy.append({ ...mark, events });
      onBatch(mark.lastSequence);
    }
  } finally {
    await inspection.done(segment);
  }
}

async function copyEntries({ active, contents }: Source, copy: StreamCopy): Promise<void> {
  await copy.clearEntries();
  let page: RecordChange[] = [];
  for await (const record of recordsOf(active)) {
    page.push(record);
    if (page.length < PAGE_RECORDS) continue;
    await copy.writeRecords(page);
    page = [];
  }
  await copy.writeRecords(page, contents.state.lastWindowEnd);
  for (const cursor of contents.cursors.values()) await copy.writeCursor(cursor);
}

async function* recordsOf({
  database,
  name,
}: InspectedSegment): AsyncGenerator<{ readonly key: string; readonly value: string }, void, void> {
  for await (const [key, , body] of walkEntries(database, name, keysOf(KEY_SPACE.record))) {
    yield { key: keyText(key), value: body.toString() };
  }
}

/** Reads everything that was copied, and throws where it is not what the ledger has. Gives the number of records. */
async function compare({ active, contents, segments }: Source, copy: StreamCopy): Promise<number> {
  const { state } = copy.contents();
  const { lowWater, segment, lastWindowEnd } = contents.state;
  const report = await verifyStream(copy.view(), QUIET);
  const deleted = { firstSequence: 1, lastSequence: Math.min(lowWater, state.lowWater) };
  const missing = new Set(missingRanges([deleted, ...segments]));
  const [wrong] = report.errors.filter((error) => !missing.has(error));
  if (wrong !== undefined) throw refusal(wrong);
  if (state.head !== segment.lastSequence || state.chain !== segment.chain) {
    throw refusal(`the copy ends at ${state.head} with another chain: "${state.chain}"`);
  }
  if (state.lastWindowEnd !== lastWindowEnd) {
    throw refusal(`the end of the last window differs: "${state.lastWindowEnd}"`);
  }
  const found = new Map(await Array.fromAsync(readRecords(() => copy.view(), '')));
  const records = found.size;
  for await (const { key, value } of recordsOf(active)) {
    if (found.get(key) !== value) throw refusal(`a record differs: "${key}"`);
    found.delete(key);
  }
  const [extra] = found.keys();
  if (extra !== undefined) throw refusal(`a record that the ledger lacks: "${extra}"`);
  const copied = copy.contents().cursors;
  for (const { destination, sequence, retiredAt } of contents.cursors.values()) {
    const cursor = copied.get(destination);
    if (cursor?.sequence === sequence && cursor.retiredAt === retiredAt) continue;
    throw refusal(`the cursor of ${destination} differs: "${cursor?.sequence}"`);
  }
  if (copied.size !== contents.cursors.size) throw refusal(`cursors differ: "${copied.size}"`);
  return records;
}

function refusal(text: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `migrate: ${text}`));
}
