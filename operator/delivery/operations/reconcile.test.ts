import { signedFromNanos } from '../../model/decimal.ts';
import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import type { ReconcileRow } from './reconcile.ts';
import { createHarness, eventsOf, type Harness } from '../testing/harness.ts';

const DAY = { from: Date.UTC(2026, 10, 21), to: Date.UTC(2026, 10, 22) };
const LONG = { from: DAY.from, to: Date.UTC(2026, 11, 1) };
/** Of one test event, in nanos. */
const ONE = 16_666_667;

/** How many whole events each column of the one tenant's one row stands for. */
async function columns(harness: Harness): Promise<Readonly<Record<string, number>>> {
  const { signal } = new AbortController();
  const outcome = await harness.delivery.reconcile('fake', DAY, signal);
  if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
  const [row] = outcome.rows;
  if (row === undefined) return {};
  const count = (name: keyof ReconcileRow): number => (Number(row[name]) * 1e9) / ONE;
  const names = ['ledger', 'delivered', 'pending', 'deadLetters', 'parked', 'withheld'] as const;
  const all = names.map((name) => [name, Math.round(count(name))] as const);
  return Object.fromEntries(all.filter(([, events]) => events > 0));
}

async function delivered(events: number): Promise<Harness> {
  const harness = createHarness();
  await harness.append(...eventsOf(['a'], events));
  await harness.start();
  await harness.drained();
  return harness;
}

describe('what a destination was never given is not expected there', () => {
  test('usage from before a destination that starts now', async () => {
    const harness = createHarness();
    await harness.append(...eventsOf(['a'], 3));
    await harness.start({ startFrom: 'now' });
    await harness.append(...eventsOf(['a'], 5).slice(3));
    await harness.drained();
    expect(await columns(harness)).toEqual({ ledger: 5, withheld: 3, delivered: 2 });
    await harness.stop();
  });

  test('a discarded dead letter', async () => {
    const harness = createHarness();
    harness.destination.react = (events) =>
      events.map(({ id }) =>
        id === 'a-1' ? { kind: 'rejected', reason: 'no such code' } : { kind: 'delivered' },
      );
    await harness.append(...eventsOf(['a'], 3));
    await harness.start();
    await harness.drained();
    expect(await columns(harness)).toEqual({ ledger: 3, deadLetters: 1, delivered: 2 });
    await harness.delivery.discard('fake', ['a-1']);
    expect(await columns(harness)).toEqual({ ledger: 3, withheld: 1, delivered: 2 });
    await harness.stop();
  });

  test('what an operator skipped, until the cursor is put back before it', async () => {
    const harness = await delivered(2);
    await harness.start({ suspend: true });
    await harness.append(...eventsOf(['a'], 6).slice(2));
    expect(await columns(harness)).toEqual({ ledger: 6, delivered: 2, pending: 4 });
    await harness.delivery.moveCursor('fake', 5);
    expect(await columns(harness)).toEqual({ ledger: 6, delivered: 2, withheld: 3, pending: 1 });
    await harness.delivery.moveCursor('fake', 4);
    expect(await columns(harness)).toEqual({ ledger: 6, delivered: 2, withheld: 2, pending: 2 });
    await harness.delivery.moveCursor('fake', 2);
    await harness.start();
    await harness.drained();
    expect(await columns(harness)).toEqual({ ledger: 6, delivered: 6 });
    await harness.stop();
  });

  test('but what was sent once before is, though the cursor went back and forth', async () => {
    const harness = await delivered(4);
    await harness.start({ suspend: true });
    await harness.delivery.moveCursor('fake', 1);
    await harness.delivery.moveCursor('fake', 4);
    expect(await columns(harness)).toEqual({ ledger: 4, delivered: 4 });
    await harness.stop();
  });
});

test('usage that is delivered while the destination is queried is no difference', async () => {
  const harness = await delivered(2);
  const nanos = (): number => harness.destination.taken.length * ONE;
  let questions = 0;
  harness.destination.sums = {
    total: async () => {
      questions += 1;
      if (questions === 1) {
        await harness.append(...eventsOf(['a'], 5).slice(2));
        await harness.drained();
      }
      return { kind: 'total', quantity: signedFromNanos(BigInt(nanos())) };
    },
  };
  const { signal } = new AbortController();
  expect(await harness.delivery.reconcile('fake', DAY, signal)).toMatchObject({
    rows: [{ delivered: '0.083333335', reported: '0.083333335', difference: '0' }],
  });
  expect(questions).toBe(2);
  await harness.stop();
});

test('one reconciliation requests so many sums, and says which it has not requested', async () => {
  const harness = createHarness();
  const tenants = Array.from({ length: 6 }, (_, index) => `t${index}`);
  await harness.append(...eventsOf(tenants));
  await harness.start();
  await harness.drained();
  let questions = 0;
  harness.destination.sums = {
    total: async () => {
      questions += 1;
      return { kind: 'total', quantity: signedFromNanos(16_666_667n) };
    },
  };
  const { signal } = new AbortController();
  const outcome = await harness.delivery.reconcile('fake', { ...DAY, questions: 4 }, signal);
  if (outcome.kind !== 'reconciled') throw new Error(outcome.kind);
  expect(questions).toBe(4);
  const open = outcome.rows.filter(({ difference }) => difference === undefined);
  expect(open.map(({ note }) => note)).toStrictEqual(
    Array.from({ length: 2 }, () => 'too many rows: query one tenant'),
  );
  await harness.stop();
});

test('a lasting difference is reported after one query', async () => {
  const harness = await delivered(2);
  let questions = 0;
  harness.destination.sums = {
    total: async () => {
      questions += 1;
      return { kind: 'total', quantity: signedFromNanos(16_666_667n) };
    },
  };
  const { signal } = new AbortController();
  expect(await harness.delivery.reconcile('fake', DAY, signal)).toMatchObject({
    rows: [{ delivered: '0.033333334', difference: '-0.016666667' }],
  });
  expect(questions).toBe(1);
  await harness.stop();
});

describe('of a destination that cannot be queried, what it acknowledged is compared', () => {
  const [ONE_EVENT, THREE] = ['0.016666667', '0.050000001'];
  const row = async (harness: Harness) => {
    const outcome = await harness.delivery.reconcile('fake', DAY, new AbortController().signal);
    return outcome.kind === 'reconciled' ? outcome.rows[0] : undefined;
  };

  test('also after a restart, and after what was sent is sent again', async () => {
    const harness = await delivered(3);
    await harness.start({ suspend: true });
    expect(await row(harness)).toMatchObject({ acknowledged: THREE, difference: '0' });
    await harness.delivery.moveCursor('fake', 1);
    expect(await row(harness)).toMatchObject({ acknowledged: ONE_EVENT, difference: '0' });
    await harness.stop();

    const again = createHarness({ ledger: harness.ledger });
    await again.start();
    await again.drained();
    expect(again.destination.taken).toHaveLength(2);
    expect(await row(again)).toMatchObject({
      ledger: THREE,
      delivered: THREE,
      acknowledged: THREE,
      difference: '0',
    });
    await again.stop();
  });

  test('a letter counts once it is accepted', async () => {
    const harness = createHarness();
    harness.destination.react = (events) =>
      events.map(() => ({ kind: 'rejected', reason: 'no such code' }));
    await harness.append(...eventsOf(['a'], 3));
    await harness.start();
    await harness.drained();
    expect(await row(harness)).toMatchObject({ deadLetters: THREE, acknowledged: '0' });
    harness.destination.react = () => 'accept';
    const replayed = harness.delivery.replay('fake', ['a-1']);
    await harness.clock.settle();
    await replayed;
    expect(await row(harness)).toMatchObject({ acknowledged: ONE_EVENT, difference: '0' });
    await harness.stop();
  });

  test('usage that was passed over while its metric was not wanted is a difference', async () => {
    const harness = createHarness();
    await harness.append(...eventsOf(['a'], 3));
    await harness.start({ metrics: { exclude: ['tenant_instance_hours'] } });
    await harness.drained();
    await harness.start();
    expect(await row(harness)).toMatchObject({
      delivered: THREE,
      acknowledged: '0',
      difference: `-${THREE}`,
    });
    await harness.stop();
  });

  test('over many events, of which the oldest are deleted in time', async () => {
    const ledger = createMemoryLedger();
    let lowWater = 0;
    const harness = createHarness({ ledger: { ...ledger, lowWater: () => lowWater } });
    await harness.start();
    for (const tenants of [['a'], ['b']]) {
      await harness.append(...eventsOf(tenants, 5_000));
      await harness.drained();
      lowWater = 5_000;
    }
    const rows: string[] = [];
    for await (const [key] of ledger.records('delivery/fake/acknowledged/')) rows.push(key);
    expect(rows.map((key) => Number(key.split('/').at(-1)))).toEqual([1, 2]);
    const second = await harness.delivery.reconcile('fake', LONG, new AbortController().signal);
    expect(second).toMatchObject({ rows: [{ tenant: 'a' }, { tenant: 'b', difference: '0' }] });
    await harness.stop();
  });
});
