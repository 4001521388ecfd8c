import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import {
  createDatabase,
  type Database,
  type Operation,
} from '../../operator/ledger/leveldb/database.ts';
import { encodeStoredEvents } from '../../operator/ledger/event-chain.ts';
import { directoryBytes } from '../../operator/ledger/leveldb/files.ts';
import { IdFilter } from '../../operator/ledger/leveldb/id-filter.ts';
import { firstState } from '../../operator/ledger/leveldb/identity.ts';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { TimeSlice } from '../../operator/telemetry/time-slice.ts';
import { planBatch } from '../../operator/ledger/leveldb/plan-batch.ts';
import { SegmentPool } from '../../operator/ledger/leveldb/segment-pool.ts';
import { encodeEvents } from '../../operator/ledger/writer.ts';
import { silentLogger } from '../../operator/ledger/testing/level-ledger.ts';
import { encodeEvent, type UsageEvent } from '../../operator/model/event.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import { benchWindow } from './ledger-events.ts';
import { quantile } from './quantile.ts';

export interface AppendFigures {
  /** Time of bare classic-level ÷ time of the ledger without encoding, each that of the fastest quarter; 1 is as fast. */
  readonly ratio: number;
  /** Milliseconds for a batch, encoding included. */
  readonly p50: number;
  readonly p99: number;
  readonly rawP50: number;
  /** Events a second, encoding included. */
  readonly rate: number;
  /** Microseconds an event. */
  readonly encode: number;
  readonly bytesPerEvent: number;
}

export interface AppendPlan {
  readonly directory: string;
  readonly deduplicate: boolean;
  readonly batches: number;
}

const BATCH_EVENTS = 1_000;
const WARM_UP = 20;
/** What else runs on the machine makes the slower batches slow. */
const UNDISTURBED = 0.25;
/** A window's events come in several batches, so that most of them must be looked for among the stored ones. */
const BATCHES_PER_WINDOW = 5;

/** Appends batches of 1,000 to the ledger and, in turns, writes the same entries with bare classic-level. */
export async function measureAppend(plan: AppendPlan): Promise<AppendFigures> {
  const { directory, deduplicate, batches } = plan;
  await mkdir(directory, { recursive: true });
  const ledger = await openBenchLedger(join(directory, 'ledger'), deduplicate);
  const raw = new ClassicLevel<Buffer, Buffer>(join(directory, 'raw'), {
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
  });
  await raw.open();
  const planner = await createPlanner(join(directory, 'planner'), deduplicate);
  const ours: number[] = [];
  const bare: number[] = [];
  const encodings: number[] = [];
  for (let batch = 0; batch < batches + WARM_UP; batch++) {
    const events = eventsOfBatch(batch);
    const operations = await planner.operations(events);
    const encoding = time(() => encodeStoredEvents(1, events.map(encodeEvent)));
    const writeBare = () => timeOf(() => raw.batch(operations, { sync: true }));
    const appendOurs = () => timeOf(() => append(ledger, events));
    // Whoever goes first finds colder caches, so they take turns.
    const bareFirst = batch % 2 === 0 ? await writeBare() : undefined;
    const ourTime = await appendOurs();
    const bareTime = bareFirst ?? (await writeBare());
    if (batch < WARM_UP) continue;
    bare.push(bareTime);
    ours.push(ourTime);
    encodings.push(encoding);
  }
  await ledger.close();
  await raw.close();
  await planner.close();
  const segment = join(directory, 'ledger', 'segment-0000000000000001');
  const stored = (batches + WARM_UP) * BATCH_EVENTS;
  return {
    ratio:
      quantile(bare, UNDISTURBED) /
      (quantile(ours, UNDISTURBED) - quantile(encodings, UNDISTURBED)),
    p50: quantile(ours, 0.5),
    p99: quantile(ours, 0.99),
    rawP50: quantile(bare, 0.5),
    rate: (batches * BATCH_EVENTS * 1_000) / sum(ours),
    encode: (quantile(encodings, 0.5) * 1_000) / BATCH_EVENTS,
    bytesPerEvent: (await directoryBytes(segment)) / stored,
  };
}

function eventsOfBatch(batch: number): UsageEvent[] {
  const window = benchWindow(
    Math.floor(batch / BATCHES_PER_WINDOW),
    BATCHES_PER_WINDOW * BATCH_EVENTS,
  );
  const from = (batch % BATCHES_PER_WINDOW) * BATCH_EVENTS;
  return window.slice(from, from + BATCH_EVENTS);
}

export async function openBenchLedger(directory: string, deduplicate = true): Promise<Ledger> {
  const outcome = await openLevelLedger({
    directory,
    deduplicate,
    retentionMs: Number.MAX_SAFE_INTEGER,
    clock: systemClock,
    logger: silentLogger,
  });
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.ledger;
}

export async function append(ledger: Ledger, events: readonly UsageEvent[]): Promise<void> {
  const outcome = await ledger.append({ events });
  if (outcome.kind === 'failed') throw new Error(outcome.message);
}

/** Says what the ledger would write, without writing it. */
async function createPlanner(directory: string, deduplicate: boolean) {
  const active: Database = await createDatabase(directory);
  const pool = new SegmentPool(directory);
  const ids = new IdFilter();
  const state = firstState('bench', Date.now());
  let contents = { state, cursors: new Map(), sealed: [] } as Parameters<typeof planBatch>[1];
  return {
    async operations(events: readonly UsageEvent[]): Promise<Operation[]> {
      const { segment, link } = contents.state;
      const places = {
        active,
        activeName: 'bench',
        segment,
        link,
        ids,
        sealed: [],
        pool,
        deduplicate,
      };
      const request = { kind: 'append', events: encodeEvents(events), records: [] } as const;
      const turn = new TimeSlice(systemClock);
      const plan = await planBatch([request], contents, places, Date.now(), turn);
      contents = plan.contents;
      return plan.operations;
    },
    close: () => active.close(),
  };
}

function time(work: () => unknown): number {
  collectGarbage();
  const from = performance.now();
  work();
  return performance.now() - from;
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  collectGarbage();
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** So that nobody pays for what the bench itself left lying about; needs --expose-gc. */
function collectGarbage(): void {
  globalThis.gc?.({ type: 'minor' });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
