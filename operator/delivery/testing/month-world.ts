import { expect, vi } from 'vitest';
import type { DestinationSettings } from '../../settings/settings.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { testEvent } from '../../ledger/testing/events.ts';
import { parseSigned } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import { formatInstant } from '../../model/window.ts';
import type { InvoiceReport } from '../operations/invoice-report.ts';
import { tenantNamed } from './harness.ts';
import { startLiveDelivery } from './live-delivery.ts';
import { createMonthClock } from './month-clock.ts';

const MINUTE_MS = 60_000;
const STEP_MS = 5_000;
const JANUARY = Date.UTC(2027, 0, 1);
const NAME = 'bills';

/** `02-01T00:30` in 2027, milliseconds since the epoch. */
export function on(text: string): number {
  return Date.parse(`2027-${text}:00Z`);
}

export interface MonthWorldOptions {
  readonly settings: Pick<DestinationSettings, 'type' | 'options' | 'late'>;
  /** What is particular about the tenant. */
  readonly tenant?: Partial<Tenant>;
  /** Turns the billing system's clock. */
  readonly advanceTo: (at: number) => void;
}

/** The engine with one destination and the tenant `acme`, through months from 1 January 2027 on. */
export async function startMonths({ settings, advanceTo: sliceTo, tenant }: MonthWorldOptions) {
  const clock = createMonthClock(JANUARY);
  sliceTo(JANUARY);
  const ledger = createMemoryLedger();
  const start = async () => {
    const started = await startLiveDelivery({
      ledger,
      clock,
      tenants: new Map([['acme', tenantNamed('acme', { createdAt: JANUARY, ...tenant })]]),
      destinations: [{ name: NAME, suspend: false, startFrom: 'earliest', ...settings }],
    });
    await settled(() => expect(started.delivery.status(NAME)?.bootstrapped).toBe(true));
    return started;
  };
  let live = await start();
  const goTo = (at: number): void => {
    sliceTo(at);
    clock.advanceTo(at);
  };
  const append = async (event: UsageEvent): Promise<void> => {
    const outcome = await ledger.append({ events: [event] });
    expect(outcome.kind).toBe('appended');
    await settled(() => {
      const status = live.delivery.status(NAME);
      // A change of plan takes its time, which passes only here.
      if (status?.planChanges.length !== 0) goTo(clock.now() + STEP_MS);
      expect(status?.planChanges).toStrictEqual([]);
      expect(status?.cursor).toBe(ledger.head());
      // A change of plan takes its time.
      if ((status?.parked ?? 0) > 0) goTo(clock.now() + MINUTE_MS);
      expect(status?.parked).toBe(0);
    });
  };
  return {
    clock,
    ledger,
    delivery: () => live.delivery,
    turnTo: (text: string): void => goTo(on(text)),
    append,
    /** Usage of a window that begins then, recorded now, and delivered. */
    use: async (begin: string, quantity: string, metric = 'tenant_instance_hours') => {
      const amount = parseSigned(quantity);
      if (amount === undefined) throw new RangeError(`quantity: "${quantity}"`);
      await append({
        ...testEvent({ tenant: 'acme', id: `${metric}:${begin}`, windowStart: on(begin) }),
        metric,
        quantity: amount,
        recorded_at: formatInstant(clock.now()),
      });
    },
    /** What two looks at the invoices find. */
    report: async (): Promise<InvoiceReport | undefined> => {
      const { signal } = new AbortController();
      for (let round = 0; round < 2; round += 1) {
        expect(await live.delivery.checkInvoices(NAME, 10, signal)).toBeUndefined();
        goTo(clock.now() + 10 * MINUTE_MS);
      }
      return live.delivery.status(NAME)?.invoices;
    },
    restart: async () => {
      await live.stop();
      live = await start();
    },
    stop: () => live.stop(),
  };
}

export type MonthWorld = Awaited<ReturnType<typeof startMonths>>;

function settled(condition: () => void): Promise<void> {
  return vi.waitFor(condition, { timeout: 10_000, interval: 5 });
}
