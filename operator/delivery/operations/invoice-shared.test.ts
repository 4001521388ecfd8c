import { expect, test } from 'vitest';
import type { FinalInvoice, UsageLine } from '../../destinations/invoices.ts';
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
const METRIC = 'tenant_instance_hours';
const { signal } = new AbortController();

/** A billing system with an invoice of ten hours, whose customer may be several tenants. */
function createWorld(payerOf: (tenant: string) => string) {
  const clock = createMonthClock(START);
  const ledger = createMemoryLedger();
  const records = createDeliveryRecords(ledger, 'bills');
  const lines: UsageLine[] = [];
  const period = { metric: METRIC, from: START, to: START + 10 * HOUR_MS };
  const operator = (): InvoiceReconcile =>
    new InvoiceReconcile({
      name: 'bills',
      type: 'noop',
      invoices: {
        list: async ({ tenant }) => {
          const invoice: FinalInvoice = {
            id: `of ${payerOf(tenant.id)}`,
            finalizedAt: START + 11 * HOUR_MS,
            until: period.to,
            currency: 'USD',
            lines,
          };
          const isFinal = clock.now() >= invoice.finalizedAt;
          const open = [{ from: isFinal ? period.to : START }];
          const invoices = isFinal ? [invoice] : [];
          return { kind: 'invoices', invoices, open, payer: payerOf(tenant.id) };
        },
      },
      unpriced: () => [],
      ledger,
      records,
      deadLetters: new DeadLetterIndex(records),
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
  return {
    operator,
    /** A line of the invoice. */
    bill: (quantity: string, amount: string) => lines.push({ ...period, quantity, amount }),
    use: async (tenant: string, at: number, units: number) => {
      const windowStart = START + at * HOUR_MS;
      const id = `event ${ledger.head()}`;
      const event = {
        ...testEvent({ tenant, id, windowStart, quantity: `${units}` }),
        recorded_at: formatInstant(clock.now()),
      };
      expect((await ledger.append({ events: [event] })).kind).toBe('appended');
    },
    /** What is reported some hours after the invoice, with a restart of the process half-way. */
    compared: async () => {
      let running = operator();
      for (const hour of [12, 14, 16, 18]) {
        clock.advanceTo(START + hour * HOUR_MS);
        if (hour === 16) running = operator();
        expect(await running.poll(10, signal)).toBeUndefined();
        clock.advanceTo(START + (hour + 1) * HOUR_MS);
        expect(await running.poll(10, signal)).toBeUndefined();
      }
      return running.report();
    },
  };
}

test('tenants with one customer are held against its invoices together, whoever began first', async () => {
  const world = createWorld(() => 'cus_1');
  await world.use('beta', 5, 4);
  await world.use('acme', 1, 3);
  world.bill('7', '14');
  expect(await world.compared()).toMatchObject({ differing: 0, tenants: 2 });
});

test('what is missing of a shared customer is reported once, with its worth and with the tenants', async () => {
  const world = createWorld(() => 'cus_1');
  await world.use('beta', 5, 4);
  await world.use('acme', 1, 3);
  world.bill('5', '10');
  const report = await world.compared();
  expect(report).toMatchObject({
    differing: 1,
    examples: [
      {
        tenant: 'acme',
        metric: METRIC,
        difference: '-2',
        amount: { value: -4, currency: 'USD' },
        cause: expect.stringMatching(/; invoiced together: acme, beta$/),
      },
    ],
  });
});

test('tenants with customers of their own are compared separately', async () => {
  const world = createWorld((tenant) => `cus_${tenant}`);
  await world.use('beta', 5, 4);
  await world.use('acme', 1, 4);
  world.bill('5', '10');
  const report = await world.compared();
  expect(report?.examples.map(({ tenant, difference }) => [tenant, difference])).toEqual(
    expect.arrayContaining([
      ['acme', '1'],
      ['beta', '1'],
    ]),
  );
});

test('a metric that two prices charge at once is reported with both of them', async () => {
  const world = createWorld(() => 'cus_1');
  await world.use('acme', 1, 3);
  world.bill('3', '6');
  world.bill('3', '9');
  expect((await world.compared())?.examples).toMatchObject([
    {
      difference: '3',
      amount: { value: 9, currency: 'USD' },
      cause: expect.stringContaining('2 prices charge it at the same time, 2 and 3 a unit'),
    },
  ]);
});
