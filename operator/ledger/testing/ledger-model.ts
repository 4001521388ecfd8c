import { deepEqual, equal, ok } from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { parseDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Ledger } from '../ledger.ts';
import { sameCharge } from '../same-charge.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent } from './events.ts';
import { openTestLedger } from './level-ledger.ts';
import { readContent } from './sample-ledger.ts';
import type { StepClock } from './step-clock.ts';

const RETENTION_MS = 3_600_000;

/** What the ledger should hold, kept in the plainest way. */
export interface LedgerModel {
  readonly events: UsageEvent[];
  readonly records: Map<string, string>;
  readonly cursors: Map<string, number>;
  lowWater: number;
}

/** The ledger under test, which crashes replace. */
export interface LedgerSubject {
  ledger: Ledger;
  directory: string;
  readonly root: string;
  readonly clock: StepClock;
  generation: number;
}

export type LedgerCommand = fc.AsyncCommand<LedgerModel, LedgerSubject>;

/** Opens the ledger under test where it is. */
export async function openSubject(subject: Omit<LedgerSubject, 'ledger'>): Promise<Ledger> {
  return openTestLedger(subject.directory, {
    clock: subject.clock,
    retentionMs: RETENTION_MS,
    segmentLimits: { events: 12, bytes: Number.MAX_SAFE_INTEGER },
  });
}

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

const crash = fc.constant(
  command('crash', async (_, subject) => {
    const next = join(subject.root, `generation-${++subject.generation}`);
    await cp(subject.directory, next, { recursive: true });
    await subject.ledger.close();
    await rm(subject.directory, { recursive: true });
    subject.directory = next;
    subject.ledger = await openSubject(subject);
  }),
);

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

/** Everything that may happen to a ledger; appends more often than the rest. */
export const ledgerCommands: fc.Arbitrary<Iterable<LedgerCommand>> = fc.commands(
  [append, append, append, commit, record, crash, retain, readAll],
  { maxCommands: 30 },
);
