import { deepEqual, equal, ok } from 'node:assert/strict';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Ledger } from '../ledger.ts';
import { sameCharge } from '../same-charge.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from './events.ts';
import { readContent } from './sample-ledger.ts';
import type { StepClock } from './step-clock.ts';

/** RETENTION of the ledgers that are compared with the model. */
export const MODEL_RETENTION_MS = 3_600_000;

/** The expected content of the ledger, in the simplest form. */
interface LedgerModel {
  readonly events: UsageEvent[];
  readonly records: Map<string, string>;
  readonly cursors: Map<string, number>;
  lowWater: number;
}

/** The ledger under test, which crashes replace. */
export interface LedgerSubject {
  ledger: Ledger;
  readonly clock: StepClock;
  /** Ends the writing process like a kill and opens the ledger again. */
  crash(): Promise<void>;
  /** Closes it and deletes what is left of it. */
  end(): Promise<void>;
}

type LedgerCommand = fc.AsyncCommand<LedgerModel, LedgerSubject>;

const command = (name: string, run: LedgerCommand['run']): LedgerCommand => ({
  check: () => true,
  run,
  toString: () => name,
});

const someEvent = fc
  .record({
    own: fc.boolean(),
    tenant: fc.integer({ min: 0, max: 5 }),
    window: fc.integer({ min: 0, max: 8 }),
    quantity: fc.constantFrom('1', '1', '1', '2'),
  })
  .map(({ own, tenant, window, quantity }) => {
    const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    const event = testEvent({ tenant: `tenant-${tenant}`, windowStart });
    const exact = parseDecimal(quantity) ?? event.quantity;
    return { ...event, quantity: exact, ...(own && { id: `own-${tenant}` }) };
  });

const append = fc.array(someEvent, { maxLength: 12 }).map((events) =>
  command(`append(${events.length})`, async (model, { ledger }) => {
    // Ingest refuses what ended at or before the horizon.
    const { horizon } = ledger.stats();
    const offered = events.filter((event) => Date.parse(event.window_end) > horizon);
    const expected = offered.map((event) => {
      const first = model.events.slice(model.lowWater).find(({ id }) => id === event.id);
      if (first !== undefined) return sameCharge(first, event) ? 'duplicate' : 'conflict';
      model.events.push(event);
      return 'accepted';
    });
    const outcome = await ledger.append({ events: offered });
    deepEqual(outcome, { kind: 'appended', outcomes: expected, head: model.events.length });
  }),
);

const commit = fc
  .record({ name: fc.constantFrom('lago', 'webhook'), sequence: fc.integer({ min: 0, max: 60 }) })
  .map(({ name, sequence }) =>
    command(`commit(${name}, ${sequence})`, async (model, { ledger }) => {
      const outcome = await ledger.commitCursor(name, sequence);
      const valid = sequence <= model.events.length;
      equal(outcome.kind, valid ? 'written' : 'failed');
      if (valid) model.cursors.set(name, Math.max(model.cursors.get(name) ?? 0, sequence));
    }),
  );

const record = fc
  .record({
    key: fc.constantFrom('a', 'b', 'journal/1', 'journal/2'),
    value: fc.option(fc.string({ maxLength: 20 }), { nil: undefined }),
  })
  .map((change) =>
    command(`record(${change.key})`, async (model, { ledger }) => {
      await ledger.writeRecords([change]);
      if (change.value === undefined) model.records.delete(change.key);
      else model.records.set(change.key, change.value);
    }),
  );

const crash = fc.constant(command('crash', (_, subject) => subject.crash()));

const retain = fc.integer({ min: -2, max: 30 }).map((hours) =>
  command(`retain after ${hours} h`, async (model, { ledger, clock }) => {
    clock.set(clock.now() + hours * 3_600_000);
    await ledger.retain(clock.now());
    const lowWater = ledger.lowWater();
    const consumed = Math.min(...model.cursors.values(), model.events.length);
    ok(lowWater === model.lowWater || lowWater <= consumed);
    ok(lowWater >= model.lowWater);
    model.lowWater = lowWater;
  }),
);

const readAll = fc.constant(
  command('read', async (model, { ledger }) => {
    const content = await readContent(ledger);
    if (typeof content === 'string') throw new Error(content);
    deepEqual(
      content.events,
      model.events.map((event, index) => ({ sequence: index + 1, event })).slice(model.lowWater),
    );
    deepEqual(
      content.records,
      [...model.records].toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
    deepEqual(
      new Map(ledger.cursors().map(({ destination, sequence }) => [destination, sequence])),
      model.cursors,
    );
    deepEqual((await ledger.verify()).errors, []);
    deepEqual(ledger.stats().problems, []);
  }),
);

/** Everything that may happen to a ledger; mostly appends. */
const ledgerCommands: fc.Arbitrary<Iterable<LedgerCommand>> = fc.commands(
  [append, append, append, commit, record, crash, retain, readAll],
  { maxCommands: 30 },
);

/** More with LEDGER_MODEL_RUNS, for a long run; LEDGER_SEED repeats one. */
const RUNS = Number(process.env['LEDGER_MODEL_RUNS'] ?? 60);
const SEED = process.env['LEDGER_SEED'];
const RUN_MS = 3_000;

/** A vitest test that compares a ledger with the model. `open` returns an empty ledger. */
export function ledgerLikeModel(open: () => Promise<LedgerSubject>): void {
  const compare = async (commands: Iterable<LedgerCommand>): Promise<void> => {
    const real = await open();
    const model: LedgerModel = { events: [], records: new Map(), cursors: new Map(), lowWater: 0 };
    try {
      await fc.asyncModelRun(() => ({ model, real }), commands);
    } finally {
      await real.end();
    }
  };
  test(
    'no order of appends, repeats, commits, records, crashes, clock steps and deletions makes the ledger differ from a plain list',
    async () => {
      const details = await fc.check(fc.asyncProperty(ledgerCommands, compare), {
        numRuns: RUNS,
        ...(SEED !== undefined && { seed: Number(SEED) }),
      });
      expect(fc.defaultReportMessage(details) ?? 'held').toBe('held');
    },
    RUN_MS * RUNS,
  );
}
