import { array, assert, asyncProperty, integer, record } from 'fast-check';
import { expect, test } from 'vitest';
import type { FinalInvoice, InvoicesOutcome } from '../../destinations/invoices.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { formatInstant } from '../../model/window.ts';
import { DeadLetterIndex } from '../records/dead-letters.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { tenantNamed } from '../testing/harness.ts';
import { createMonthClock } from '../testing/month-clock.ts';
import { InvoiceReconcile } from './invoice-reconcile.ts';

const HOUR_MS = 3_600_000;
const START = Date.UTC(2027, 0, 1);
/** Periods of ten hours, each final three hours after its end. */
const PERIOD_H = 10;
const GRACE_H = 3;
const METRIC = 'tenant_instance_hours';
const { signal } = new AbortController();

/** A billing system whose invoices have what has come by the time they are final. */
function createWorld() {
  const clock = createMonthClock(START);
  const ledger = createMemoryLedger();
  const records = createDeliveryRecords(ledger, 'bills');
  const deadLetters = new DeadLetterIndex(records);
  /** Begin of the window, arrival, units; in hours since the start. */
  const arrived: { readonly at: number; readonly by: number; readonly units: number }[] = [];
  const extra: FinalInvoice[] = [];
  const voided = new Set<string>();
  let requested = 0;
  const hour = (): number => (clock.now() - START) / HOUR_MS;
  const unitsOf = (period: number, until: number): number =>
    arrived
      .filter(({ at, by }) => Math.floor(at / PERIOD_H) === period && by < until)
      .reduce((sum, { units }) => sum + units, 0);
  const invoices = async (): Promise<InvoicesOutcome> => {
    requested += 1;
    const done = Math.max(0, Math.floor((hour() - GRACE_H) / PERIOD_H));
    const made = Array.from({ length: done }, (_, period): FinalInvoice => {
      const [from, to] = [period, period + 1].map((one) => START + one * PERIOD_H * HOUR_MS);
      const final = (period + 1) * PERIOD_H + GRACE_H;
      return {
        id: `period ${period}`,
        finalizedAt: START + final * HOUR_MS,
        until: to ?? 0,
        currency: 'USD',
        lines: [
          { metric: METRIC, from: from ?? 0, to: to ?? 0, quantity: `${unitsOf(period, final)}` },
        ],
      };
    });
    const known = [...made, ...extra].filter(({ id }) => !voided.has(id));
    return {
      kind: 'invoices',
      invoices: known,
      open: [{ from: START + done * PERIOD_H * HOUR_MS }],
    };
  };
  const operator = (): InvoiceReconcile =>
    new InvoiceReconcile({
      name: 'bills',
      type: 'noop',
      invoices: { list: invoices },
      unpriced: () => [],
      ledger,
      records,
      deadLetters,
      wants: () => true,
      cursor: () => ledger.head(),
      changes: {
        sentAt: ({ event }) => Date.parse(event.window_start),
        sentAtOf: (_tenant, { start }) => start,
      },
      clock,
      recheck: () => undefined,
      describe: async (id) => tenantNamed(id),
    });
  const append = async (at: number, units: number): Promise<number> => {
    const event = {
      ...testEvent({
        tenant: 'acme',
        id: `event ${ledger.head()}`,
        windowStart: START + at * HOUR_MS,
        quantity: `${units}`,
      }),
      recorded_at: formatInstant(clock.now()),
    };
    expect((await ledger.append({ events: [event] })).kind).toBe('appended');
    return ledger.head();
  };
  return {
    clock,
    ledger,
    records,
    deadLetters,
    arrived,
    extra,
    voided,
    hour,
    unitsOf,
    operator,
    append,
    requested: () => requested,
    deliver: async (at: number, units: number) => {
      arrived.push({ at, by: hour(), units });
      return append(at, units);
    },
    turnTo: (hours: number) => clock.advanceTo(START + hours * HOUR_MS),
  };
}

/**
 * Three rounds: what is delivered in one is added up in the next, and an invoice may be made
 * between two.
 */
async function looked(operator: InvoiceReconcile, sliceTo: (hours: number) => void, hour: number) {
  for (const later of [1, 3, 5]) {
    sliceTo(hour + later);
    expect(await operator.poll(10, signal)).toBeUndefined();
  }
  return operator.report();
}

test('what is reported to be on no invoice is exactly what came after its invoice was final', async () => {
  const step = record({
    wait: integer({ min: 0, max: 7 }),
    back: integer({ min: 0, max: 15 }),
    units: integer({ min: 1, max: 9 }),
    /** 0: looks; 1: the process begins anew. */
    next: integer({ min: 0, max: 5 }),
  });
  await assert(
    asyncProperty(array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      const world = createWorld();
      let operator = world.operator();
      for (const { wait, back, units, next } of steps) {
        world.turnTo(world.hour() + wait);
        await world.deliver(Math.max(0, world.hour() - back), units);
        if (next === 0) await operator.poll(10, signal);
        if (next === 1) operator = world.operator();
      }
      const report = await looked(operator, world.turnTo, world.hour() + 30);
      const lost = world.arrived
        .filter(({ at, by }) => by >= (Math.floor(at / PERIOD_H) + 1) * PERIOD_H + GRACE_H)
        .reduce((sum, { units }) => sum + units, 0);
      const reported = report?.examples.map(({ difference }) => difference);
      expect(reported).toEqual(lost === 0 ? [] : [`-${lost}`]);
    }),
    { numRuns: 300 },
  );
});

test('a dead letter is expected on no invoice until it is sent', async () => {
  const world = createWorld();
  const operator = world.operator();
  await world.deliver(1, 5);
  const sequence = await world.append(2, 3);
  const [letter] = await lettersOf(world, sequence);
  if (letter === undefined) throw new Error('no letter');
  expect(await looked(operator, world.turnTo, 15)).toMatchObject({ tenants: 1, differing: 0 });
  // It is replayed, and comes too late.
  world.arrived.push({ at: 2, by: 22, units: 3 });
  await world.ledger.writeRecords([world.records.dropDead(sequence)]);
  world.deadLetters.remove({ sequence, event: letter.event });
  const report = await looked(world.operator(), world.turnTo, 24);
  expect(report?.examples).toMatchObject([{ difference: '-3' }]);
});

async function lettersOf(
  { ledger, records, deadLetters }: ReturnType<typeof createWorld>,
  sequence: number,
) {
  const page = await ledger.read(sequence - 1, 1);
  if (page.kind === 'failed') throw new Error(page.message);
  const letters = page.events.map(({ event }) => ({
    sequence,
    event,
    at: START,
    reason: 'refused',
  }));
  await ledger.writeRecords(letters.map((letter) => records.putDead(letter)));
  await deadLetters.load();
  return letters;
}

test('a line for it on a later invoice makes up for late usage, voiding that brings it back', async () => {
  const world = createWorld();
  const operator = world.operator();
  await world.deliver(1, 5);
  world.turnTo(14);
  await world.deliver(8, 2);
  expect((await looked(operator, world.turnTo, 15))?.examples).toMatchObject([
    { difference: '-2', cause: 'the usage arrived after its invoice was final' },
  ]);
  const period = { from: START, to: START + PERIOD_H * HOUR_MS };
  world.extra.push({
    id: 'one-off',
    finalizedAt: START + 20 * HOUR_MS,
    until: period.to,
    lines: [{ metric: METRIC, ...period, quantity: '2' }],
  });
  expect(await looked(operator, world.turnTo, 24)).toMatchObject({ differing: 0 });
  world.voided.add('one-off');
  expect((await looked(operator, world.turnTo, 30))?.examples).toMatchObject([
    { difference: '-2' },
  ]);
});

test('a line that reaches into the running period does not hold up the others of its metric', async () => {
  const world = createWorld();
  await world.deliver(1, 5);
  world.turnTo(14);
  // Both are on an invoice of their own, as that of a subscription that begins in the past.
  await world.append(8, 2);
  await world.append(12, 3);
  const line = (from: number, to: number, quantity: string) => ({
    metric: METRIC,
    from: START + from * HOUR_MS,
    to: START + to * HOUR_MS,
    quantity,
  });
  const finalizedAt = START + 14 * HOUR_MS;
  const lines = [line(0, PERIOD_H, '2'), line(PERIOD_H, 14, '3')];
  world.extra.push({ id: 'first', finalizedAt, until: finalizedAt, lines });
  expect(await looked(world.operator(), world.turnTo, 15)).toMatchObject({ differing: 0 });
  // The other line is counted when its period is closed, by a process that begins anew.
  const operator = world.operator();
  expect(await looked(operator, world.turnTo, 24)).toMatchObject({ differing: 0 });
  world.voided.add('first');
  const report = await looked(operator, world.turnTo, 30);
  expect(report?.examples).toMatchObject([{ difference: '-5' }]);
});

test('what is invoiced twice is reported after an hour, with the other sign', async () => {
  const world = createWorld();
  const operator = world.operator();
  await world.deliver(1, 5);
  const period = { from: START, to: START + PERIOD_H * HOUR_MS };
  world.extra.push({
    id: 'second subscription',
    finalizedAt: START + 13 * HOUR_MS,
    until: period.to,
    lines: [{ metric: METRIC, ...period, quantity: '5' }],
  });
  const report = await looked(operator, world.turnTo, 15);
  expect(report).toMatchObject({ differing: 1, examples: [{ difference: '5' }] });
  expect(report?.examples[0]?.cause).toContain('two subscriptions or contracts');
});

test('a tenant whose usage is partly deleted is compared from its next invoice on', async () => {
  const world = createWorld();
  await world.deliver(1, 5);
  // Nobody was there for the first event, whose window the ledger no longer keeps.
  world.ledger.lowWater = () => 1;
  await world.ledger.writeRecords([world.records.putTenant(tenantNamed('acme'))]);
  const operator = world.operator();
  world.turnTo(3);
  await operator.poll(10, signal);
  await world.deliver(3, 4);
  expect(await looked(operator, world.turnTo, 14)).toMatchObject({ differing: 0 });
  // From then on it is held to account.
  world.turnTo(24);
  await world.deliver(18, 2);
  expect((await looked(operator, world.turnTo, 24))?.examples).toMatchObject([
    { difference: '-2' },
  ]);
});

test('no tenant is queried more often than once an hour', async () => {
  const world = createWorld();
  const operator = world.operator();
  await world.deliver(1, 5);
  world.turnTo(2);
  await operator.poll(10, signal);
  for (let minute = 0; minute < 60; minute += 10) {
    world.turnTo(3 + minute / 60);
    await operator.poll(10, signal);
  }
  expect(world.requested()).toBe(1);
});

test('where there are many tenants each is still queried once an hour', async () => {
  const one = createWorld();
  const events = Array.from({ length: 60 }, (_, index) =>
    testEvent({ tenant: `tenant-${index}`, id: `event ${index}`, windowStart: START }),
  );
  await one.ledger.append({ events });
  const operator = one.operator();
  await operator.poll(2, signal);
  const requested: number[] = [];
  for (let poll = 1; poll <= 7; poll += 1) {
    one.turnTo(poll / 6);
    await operator.poll(2, signal);
    requested.push(one.requested());
  }
  expect(requested).toStrictEqual([10, 20, 30, 40, 50, 60, 70]);
});
