import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { systemClock } from '../../telemetry/system-clock.ts';
import { damage } from '../failures.ts';
import {
  type LedgerFailure,
  LedgerReadError,
  type RecordChange,
  type WriteOutcome,
} from '../ledger.ts';
import { missingRanges } from '../missing-ranges.ts';
import {
  beginCopy,
  type CopiedBatch,
  type CopyOptions,
  type CopyOrigin,
  copyRefusal,
} from './begin-copy.ts';
import type { StreamBatchPlan, PostgresRequest } from './plan-batch.ts';
import { createReaders } from './readers.ts';
import { readRecords } from './reading.ts';
import { schemaOf } from './schema-name.ts';
import type { Session } from './session.ts';
import type { StreamContents } from './state.ts';
import { StreamStore } from './stream-store.ts';
import { verifyStream } from './verify.ts';
import { writeBatch } from './write-batch.ts';

/** Progress of a copy, in sequence numbers. */
export interface CopyProgress {
  readonly copied: number;
  readonly of: number;
}

/** `finished`: an earlier run copied everything; an operator may have written the stream since. */
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

const ANSWER_MS = 60_000;
/** Maximum size of one transaction. */
const GROUP_EVENTS = 5_000;
const GROUP_BATCHES = 20;
const PAGE_RECORDS = 500;

/**
 * Copies a ledger into a stream: events with numbers, ids, exact texts, weeks and chain; records
 * and cursors. An interrupted copy continues at the next run. No operator can enter the stream
 * before everything was read back and compared. Throws a LedgerReadError at a failure.
 */
export async function copyToStream(
  options: CopyOptions,
  origin: CopyOrigin,
  onProgress: (progress: CopyProgress) => void = () => undefined,
): Promise<CopyReport> {
  const owner = `copy ${hostname()} ${randomUUID()}`;
  const { ledgerId } = origin.beginning;
  const contents = await beginCopy(options, origin, owner);
  if (contents === undefined) return { kind: 'finished', ledgerId };
  const copy = new StreamCopy(options, origin, owner, contents);
  try {
    await copy.events((copied) => onProgress({ copied, of: origin.head }));
    await copy.entries();
    const records = await copy.compare();
    await copy.finish();
    const { head, lowWater, chain } = copy.contents().state;
    return {
      kind: 'copied',
      ledgerId,
      firstSequence: Math.min(head, lowWater + 1),
      lastSequence: head,
      chain,
      records,
      cursors: origin.cursors.length,
    };
  } finally {
    await copy.close();
  }
}

class StreamCopy {
  readonly #origin: CopyOrigin;
  readonly #schema: string;
  readonly #readers;
  readonly #store: StreamStore;

  constructor(options: CopyOptions, origin: CopyOrigin, owner: string, contents: StreamContents) {
    this.#origin = origin;
    this.#schema = schemaOf(options.source);
    this.#readers = createReaders(options.database);
    this.#store = new StreamStore({
      ...options,
      schema: this.#schema,
      owner,
      contents,
      query: this.#readers.query,
      clock: systemClock,
      answerMs: ANSWER_MS,
      // The outcome of each write reports both.
      onConflict: () => undefined,
      onError: () => undefined,
    });
  }

  contents(): StreamContents {
    return this.#store.contents();
  }

  async events(onProgress: (copied: number) => void): Promise<void> {
    const { head } = this.contents().state;
    const { head: of, beginning } = this.#origin;
    if (head > of) throw copyRefusal(`the stream has more events than the ledger: "${head}"`);
    if (head < beginning.lowWater) {
      const text = `the ledger has deleted events that are not copied yet; --start-over starts again`;
      throw copyRefusal(`${text}: "${head}"`);
    }
    let group: CopiedBatch[] = [];
    let events = 0;
    const write = async (): Promise<void> => {
      const batches = group;
      group = [];
      events = 0;
      if (batches.length === 0) return;
      await this.#change((_, before) => before, batches);
      onProgress(this.contents().state.head);
    };
    for await (const batch of this.#origin.batches(head)) {
      group.push(batch);
      events += batch.events.length;
      if (events >= GROUP_EVENTS || group.length >= GROUP_BATCHES) await write();
    }
    await write();
    const { chain } = this.contents().state;
    if (this.contents().state.head < of) await this.#request({ kind: 'skip', head: of, chain });
  }

  /** Copies records, cursors and the last window end; deletes those of an earlier run first. */
  async entries(): Promise<void> {
    await this.#change(async (session, before) => {
      const tables = ['record', 'evidence', 'cursor'];
      const texts = tables.map((name) => ({ text: `delete from ${this.#schema}.${name}` }));
      await session.run(texts);
      return { ...before, cursors: new Map() };
    });
    const { lastWindowEnd, cursors } = this.#origin;
    const write = (records: readonly RecordChange[]) =>
      this.#request({ kind: 'append', events: [], records });
    let page: RecordChange[] = [];
    for await (const [key, value] of this.#origin.records()) {
      page.push({ key, value });
      if (page.length < PAGE_RECORDS) continue;
      await write(page);
      page = [];
    }
    await write(page);
    if (lastWindowEnd !== undefined) {
      await this.#request({ kind: 'append', events: [], records: [], windowEnd: lastWindowEnd });
    }
    for (const cursor of cursors) {
      const { destination } = cursor;
      await this.#request({
        kind: 'cursor',
        destination,
        plan: () => ({ kind: 'move', cursor }),
      });
    }
  }

  /** Reads back the copy. Returns its number of records; throws if it differs from the ledger. */
  async compare(): Promise<number> {
    const { state, segments, cursors } = this.contents();
    const { head, chain, lastWindowEnd } = this.#origin;
    const report = await verifyStream(this.#store.view());
    const deleted = { firstSequence: 1, lastSequence: state.lowWater };
    const end = { firstSequence: head + 1, lastSequence: head };
    const missing = new Set(missingRanges([deleted, ...segments, end]));
    const [wrong] = report.errors.filter((error) => !missing.has(error));
    if (wrong !== undefined) throw copyRefusal(wrong);
    if (state.head !== head || state.chain !== chain) {
      throw copyRefusal(`the copy ends at ${state.head} with another chain: "${state.chain}"`);
    }
    if (state.lastWindowEnd !== lastWindowEnd) {
      throw copyRefusal(`the end of the last window differs: "${state.lastWindowEnd}"`);
    }
    for (const { destination, sequence, retiredAt } of this.#origin.cursors) {
      const cursor = cursors.get(destination);
      if (cursor?.sequence === sequence && cursor.retiredAt === retiredAt) continue;
      throw copyRefusal(`the cursor of ${destination} differs: "${cursor?.sequence}"`);
    }
    if (cursors.size !== this.#origin.cursors.length) {
      throw copyRefusal(`cursors differ: "${cursors.size}"`);
    }
    return this.#compareRecords();
  }

  /** Completes the copy; from now on an operator may write the stream. */
  async finish(): Promise<void> {
    const { horizon } = this.#origin;
    await this.#change(async (session, before) => {
      const set = `copied_from = null, owner = '', horizon = greatest(horizon, $1)`;
      await session.run([
        { text: `update ${this.#schema}.stream set ${set}`, values: [horizon], rows: 1 },
      ]);
      return before;
    });
  }

  async close(): Promise<void> {
    await this.#store.close();
    await this.#readers.end();
  }

  async #compareRecords(): Promise<number> {
    const { query } = this.#readers;
    const found = new Map<string, string>();
    for (const table of ['record', 'evidence']) {
      const place = { table: `${this.#schema}.${table}`, before: '' };
      const rows = readRecords(query, place, '');
      for await (const [key, value] of rows) found.set(key, value);
    }
    const records = found.size;
    for await (const [key, value] of this.#origin.records()) {
      if (found.get(key) !== value) throw copyRefusal(`a record differs: "${key}"`);
      found.delete(key);
    }
    const [extra] = found.keys();
    if (extra !== undefined) throw copyRefusal(`a record that the ledger lacks: "${extra}"`);
    return records;
  }

  /** Changes the stream and appends batches in one transaction. */
  async #change(
    work: (session: Session, before: StreamContents) => Promise<StreamContents> | StreamContents,
    batches: readonly CopiedBatch[] = [],
  ): Promise<void> {
    const schema = this.#schema;
    const outcome = await this.#store.change(async (session, epoch) => {
      let contents = await work(session, this.contents());
      const { lastBatch } = contents.state;
      for (const batch of batches) {
        const plan = planOf(batch, contents);
        const context = { schema, before: contents, plan, epoch, lastBatch, now: batch.appendedAt };
        contents = await writeBatch(session, context);
        if (contents.state.chain === batch.chain) continue;
        const where = `event ${batch.lastSequence}`;
        throw damage(where, 'the chain of the copy differs from that of the ledger');
      }
      return contents;
    });
    throwFailure(outcome);
  }

  async #request(request: PostgresRequest): Promise<void> {
    const [outcome] = await this.#store.write([request]);
    if (outcome !== undefined) throwFailure(outcome);
  }
}

function planOf(
  { firstSequence, chainBefore, events }: CopiedBatch,
  { state }: StreamContents,
): StreamBatchPlan {
  const head = firstSequence - 1;
  return {
    outcomes: [],
    head,
    chain: head === state.head ? state.chain : (chainBefore ?? state.chain),
    accepted: events,
    conflicts: [],
    records: new Map(),
    cursors: new Map(),
    lastWindowEnd: undefined,
  };
}

function throwFailure(outcome: { readonly kind: string } | LedgerFailure | WriteOutcome): void {
  if ('cause' in outcome) throw new LedgerReadError(outcome);
}
