import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, type Harness, tenantNamed } from '../testing/harness.ts';

/** Three dead letters: `bad-0`, `bad-1`, `bad-2`. */
async function withDeadLetters(): Promise<Harness> {
  const harness = createHarness();
  rejectBad(harness);
  await harness.append(...eventsOf(['bad', 'a'], 3));
  await harness.start();
  await harness.drained();
  return harness;
}

function rejectBad(harness: Harness): void {
  harness.destination.react = (events) =>
    events.map(({ tenant }) =>
      tenant === 'bad' ? { kind: 'rejected', reason: 'no such code' } : { kind: 'delivered' },
    );
}

async function idsOf(harness: Harness): Promise<string[]> {
  const page = await harness.delivery.deadLetters('fake', 0, 100);
  return (page?.deadLetters ?? []).map(({ event }) => event.id);
}

async function keysOf(ledger: Ledger, part: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const [key] of ledger.records('')) if (key.includes(part)) keys.push(key);
  return keys;
}

describe('dead letters', () => {
  test('are listed a page at a time, with the whole event', async () => {
    const harness = await withDeadLetters();
    const first = await harness.delivery.deadLetters('fake', 0, 2);
    expect(first?.deadLetters.map(({ event }) => event)).toStrictEqual(
      eventsOf(['bad', 'a'], 2).filter(({ tenant }) => tenant === 'bad'),
    );
    const second = await harness.delivery.deadLetters('fake', first?.next ?? 0, 2);
    expect(second?.deadLetters).toMatchObject([
      { sequence: 5, reason: 'no such code', event: { id: 'bad-2' } },
    ]);
    expect(second).not.toMatchObject({ next: expect.anything() });
    expect(await harness.delivery.deadLetters('other', 0, 2)).toBeUndefined();
    await harness.stop();
  });

  test('are all sent again, however many batches they are', async () => {
    const harness = createHarness();
    rejectBad(harness);
    await harness.append(...eventsOf(['bad'], 25));
    await harness.start();
    await harness.drained();
    harness.destination.react = () => 'accept';
    const replay = harness.delivery.replay('fake', undefined);
    await harness.clock.settle();
    expect(harness.destination.taken).toHaveLength(25);
    expect(await replay).toMatchObject({ replayed: 25, stillRejected: 0, pending: 0 });
    await harness.stop();
  });

  test('are sent once more, those named, and leave when they are accepted', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'accept';
    expect(await harness.delivery.replay('fake', ['bad-1'])).toStrictEqual({
      kind: 'replayed',
      replayed: 1,
      stillRejected: 0,
      pending: 0,
    });
    expect(await idsOf(harness)).toStrictEqual(['bad-0', 'bad-2']);
    expect(await harness.delivery.replay('fake', undefined)).toMatchObject({ replayed: 2 });
    expect(await idsOf(harness)).toStrictEqual([]);
    expect(await keysOf(harness.ledger, '/dead/')).toStrictEqual([]);
    expect(await keysOf(harness.ledger, '/replay/')).toStrictEqual([]);
    expect(harness.delivery.status('fake')).toMatchObject({ deadLetters: 0, delivered: 6 });
    await harness.stop();
  });

  test('that nobody knows are named in the answer to a replay and a discard', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'accept';
    const requested = ['bad-1', 'bad-l', 'nonsense'];
    expect(await harness.delivery.replay('fake', requested)).toStrictEqual({
      kind: 'replayed',
      replayed: 1,
      stillRejected: 0,
      pending: 0,
      unknown: ['bad-l', 'nonsense'],
    });
    expect(await harness.delivery.discard('fake', ['bad-0', 'bad-l'])).toStrictEqual({
      kind: 'discarded',
      discarded: 1,
      unknown: ['bad-l'],
    });
    await harness.stop();
  });

  test('that are rejected again stay, with the new reason', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = (events) =>
      events.map(() => ({ kind: 'rejected', reason: 'another reason' }));
    expect(await harness.delivery.replay('fake', ['bad-0'])).toMatchObject({
      replayed: 0,
      stillRejected: 1,
    });
    const page = await harness.delivery.deadLetters('fake', 0, 10);
    expect(page?.deadLetters[0]?.reason).toBe('another reason');
    expect(harness.delivery.status('fake')?.deadLetters).toBe(3);
    await harness.stop();
  });

  test('on their way survive a restart while the destination is down', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'unavailable';
    const outcome = harness.delivery.replay('fake', undefined);
    await harness.clock.pass(30_000);
    expect(await outcome).toMatchObject({ kind: 'replayed', replayed: 0, pending: 3 });
    expect(await idsOf(harness)).toHaveLength(3);
    await harness.stop();

    const later = createHarness({ ledger: harness.ledger });
    await later.start();
    await later.clock.until(() => later.destination.taken.length === 3);
    await later.clock.settle();
    expect(later.delivery.status('fake')).toMatchObject({ deadLetters: 0 });
    await later.stop();
  });

  test('of a tenant that cannot be provisioned wait for it, out of the way of others', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'accept';
    harness.destination.reactToTenant = ({ id }) =>
      id === 'bad' ? { kind: 'rejected', reason: 'no plan' } : { kind: 'done' };
    harness.tenants.set(tenantNamed('bad', { plan: 'gone' }));
    await harness.clock.settle();
    const outcome = harness.delivery.replay('fake', undefined);
    await harness.clock.pass(30_000);
    expect(await outcome).toMatchObject({ replayed: 0, pending: 3 });
    expect(harness.delivery.status('fake')).toMatchObject({ parked: 3, deadLetters: 0 });
    harness.destination.reactToTenant = () => ({ kind: 'done' });
    await harness.clock.until(() => harness.delivery.status('fake')?.parked === 0);
    expect(harness.destination.taken.slice(-3)).toStrictEqual(['bad-0', 'bad-1', 'bad-2']);
    await harness.stop();
  });

  test('are given up when discarded, and only those', async () => {
    const harness = await withDeadLetters();
    expect(await harness.delivery.discard('fake', ['bad-0', 'bad-2', 'unknown'])).toStrictEqual({
      kind: 'discarded',
      discarded: 2,
      unknown: ['unknown'],
    });
    expect(await idsOf(harness)).toStrictEqual(['bad-1']);
    expect(await harness.delivery.discard('fake', undefined)).toMatchObject({ discarded: 1 });
    expect(harness.delivery.status('fake')?.deadLetters).toBe(0);
    await harness.stop();
  });

  test('are replayed once though an operator requests it twice', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'accept';
    const before = harness.destination.calls.length;
    await Promise.all([
      harness.delivery.replay('fake', undefined),
      harness.delivery.replay('fake', undefined),
      harness.delivery.discard('fake', undefined),
    ]);
    expect(harness.destination.calls.slice(before).flat()).toHaveLength(3);
    await harness.stop();
  });

  test('wait while the destination is suspended', async () => {
    const harness = await withDeadLetters();
    await harness.start({ suspend: true });
    expect(await harness.delivery.replay('fake', undefined)).toStrictEqual({
      kind: 'failed',
      reason: 'destination is suspended',
    });
    expect(await idsOf(harness)).toHaveLength(3);
    expect(harness.delivery.status('fake')).toMatchObject({ suspended: true, deadLetters: 3 });
    await harness.stop();
  });
});

describe('a cursor moved by hand', () => {
  test('back sends the events again, with a warning', async () => {
    const harness = createHarness();
    await harness.append(...eventsOf(['a'], 5));
    await harness.start();
    await harness.drained();
    expect(await harness.delivery.moveCursor('fake', 2)).toEqual({
      kind: 'moved',
      sequence: 2,
      warnings: ['3 events are sent again'],
    });
    await harness.drained();
    expect(harness.destination.calls.flat()).toStrictEqual([
      'a-0',
      'a-1',
      'a-2',
      'a-3',
      'a-4',
      'a-2',
      'a-3',
      'a-4',
    ]);
    await harness.stop();
  });

  test('forward skips events, with a warning', async () => {
    const harness = createHarness();
    harness.destination.react = () => 'unauthorized';
    await harness.append(...eventsOf(['a'], 5));
    await harness.start();
    expect(await harness.delivery.moveCursor('fake', 4)).toMatchObject({
      warnings: ['4 events are skipped: they will not be delivered'],
    });
    harness.destination.react = () => 'accept';
    await harness.drained();
    expect(harness.destination.taken).toStrictEqual(['a-4']);
    await harness.stop();
  });

  test('is not undone by the batch that was under way', async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let hold = false;
    const destination = createFakeDestination({ pause: () => (hold ? held : Promise.resolve()) });
    const harness = createHarness({ destination });
    await harness.append(...eventsOf(['a'], 3));
    await harness.start();
    await harness.drained();
    hold = true;
    await harness.append(...eventsOf(['a'], 6).slice(3));
    await harness.clock.settle();
    const moved = harness.delivery.moveCursor('fake', 1);
    await harness.clock.settle();
    hold = false;
    release();
    await moved;
    await harness.drained();
    expect(destination.calls.flat().slice(6)).toStrictEqual(['a-1', 'a-2', 'a-3', 'a-4', 'a-5']);
    await harness.stop();
  });

  test('over a dead letter that is accepted this time removes the letter', async () => {
    const harness = await withDeadLetters();
    harness.destination.react = () => 'accept';
    await harness.delivery.moveCursor('fake', 0);
    await harness.drained();
    expect(await idsOf(harness)).toStrictEqual([]);
    expect(harness.delivery.status('fake')?.deadLetters).toBe(0);
    await harness.stop();
  });

  test.each([-1, 7, 1.5])('to %d, where nothing is, is refused', async (sequence) => {
    const harness = await withDeadLetters();
    const outcome = await harness.delivery.moveCursor('fake', sequence);
    expect(outcome.kind).toBe('failed');
    expect(JSON.stringify(outcome)).toContain(`: \\"${sequence}\\"`);
    expect(harness.ledger.cursors()[0]?.sequence).toBe(6);
    await harness.stop();
  });
});

test('operations on a destination that is not there say so', async () => {
  const harness = await withDeadLetters();
  const unknown = { kind: 'unknown-destination' };
  expect(await harness.delivery.replay('other', undefined)).toStrictEqual(unknown);
  expect(await harness.delivery.discard('other', undefined)).toStrictEqual(unknown);
  expect(await harness.delivery.moveCursor('other', 1)).toStrictEqual(unknown);
  await harness.stop();
});
