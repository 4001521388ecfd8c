import { signedFromNanos } from '../../model/decimal.ts';
import { expect, test } from 'vitest';
import type { RecordedTotalOutcome } from '../../destinations/destination.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { createHarness, eventsOf, type Harness } from '../testing/harness.ts';
import { createVirtualClock } from '../testing/virtual-clock.ts';
import { driftReport, DriftWatch } from './drift-watch.ts';
import type { ReconcileRow } from './reconcile.ts';

const HOUR_MS = 3_600_000;
const TODAY = Date.UTC(2026, 10, 21);
const METRIC = 'tenant_instance_hours';

interface Watched {
  readonly harness: Harness;
  readonly watch: DriftWatch;
  readonly logger: ReturnType<typeof createMemoryLogger>;
  /** What the destination says it has, by tenant. */
  readonly totals: Map<string, RecordedTotalOutcome>;
  readonly requests: () => number;
  readonly stop: () => Promise<void>;
}

/**
 * A destination that was given three events of `a` and of `b` each, 0.05 hours together, and is
 * watched.
 */
async function watched(): Promise<Watched> {
  const clock = createVirtualClock();
  const totals = new Map<string, RecordedTotalOutcome>();
  const total = (nanos: bigint) => ({ kind: 'total', quantity: signedFromNanos(nanos) }) as const;
  for (const tenant of ['a', 'b']) totals.set(tenant, total(50_000_001n));
  let requested = 0;
  const destination = Object.assign(createFakeDestination({ now: () => clock.now() }), {
    sums: {
      total: async ({ tenant }: { readonly tenant: { readonly id: string } }) => {
        requested += 1;
        return totals.get(tenant.id) ?? total(0n);
      },
    },
  });
  const harness = createHarness({ clock, destination });
  await harness.append(...eventsOf(['a', 'b'], 3));
  await harness.start();
  await harness.drained();
  const logger = createMemoryLogger();
  const { delivery, ledger, registry } = harness;
  const watch = new DriftWatch({ delivery, ledger, clock, random: () => 0.5, logger, registry });
  const stopping = new AbortController();
  const running = watch.run(stopping.signal);
  return {
    harness,
    watch,
    logger,
    totals,
    requests: () => requested,
    stop: async () => {
      stopping.abort();
      await running;
      await harness.stop();
    },
  };
}

const metrics = async ({ harness }: Watched): Promise<string> =>
  harness.registry.getSingleMetricAsString('meterfeed_destination_drift_rows');

function isCompared({ watch }: Watched): boolean {
  return watch.reportOf('fake')?.day === TODAY;
}

test('a day is compared when it is over, and once where nothing differs', async () => {
  const one = await watched();
  const { clock } = one.harness;
  await clock.pass(15 * HOUR_MS);
  expect(isCompared(one)).toBe(false);
  await clock.until(() => isCompared(one));
  expect(clock.now()).toBeGreaterThanOrEqual(TODAY + 25 * HOUR_MS);
  expect(one.watch.reportOf('fake')).toMatchObject({
    day: TODAY,
    compared: 2,
    unanswered: 0,
    differing: 0,
  });
  expect(await metrics(one)).toContain('{destination="fake"} 0');
  const requested = one.requests();
  await clock.pass(6 * HOUR_MS);
  expect(one.requests()).toBe(requested);
  await one.stop();
});

test('usage that a billing system has lost is reported, and compared again until it is there', async () => {
  const one = await watched();
  const { clock } = one.harness;
  one.totals.set('b', { kind: 'total', quantity: signedFromNanos(33_333_334n) });
  await clock.until(() => isCompared(one));
  expect(one.watch.reportOf('fake')).toMatchObject({
    compared: 2,
    differing: 1,
    examples: [{ tenant: 'b', metric: METRIC, difference: '-0.016666667' }],
  });
  expect(await metrics(one)).toContain('{destination="fake"} 1');
  expect(one.logger.lines).toEqual([
    'warn [fake] 1 sums of 2026-11-21 differ from what was delivered, such as tenant_instance_hours of b by -0.016666667',
  ]);
  one.totals.set('b', { kind: 'total', quantity: signedFromNanos(50_000_001n) });
  await clock.until(() => one.watch.reportOf('fake')?.differing === 0);
  expect(await metrics(one)).toContain('{destination="fake"} 0');
  await one.stop();
});

test('a billing system that does not answer is queried again', async () => {
  const one = await watched();
  const { clock } = one.harness;
  one.totals.set('a', { kind: 'retry', reason: 'down' });
  await clock.until(() => isCompared(one));
  expect(one.watch.reportOf('fake')).toMatchObject({ compared: 1, unanswered: 1, differing: 0 });
  one.totals.set('a', { kind: 'total', quantity: signedFromNanos(50_000_001n) });
  await clock.until(() => one.watch.reportOf('fake')?.unanswered === 0);
  await one.stop();
});

test('a difference below the precision of doubles counts as none, one event counts', () => {
  const row = (delivered: string, difference: string): ReconcileRow => ({
    tenant: 'a',
    metric: METRIC,
    ledger: delivered,
    delivered,
    pending: '0',
    deadLetters: '0',
    parked: '0',
    withheld: '0',
    difference,
  });
  const differing = (delivered: string, difference: string): number =>
    driftReport(TODAY, [row(delivered, difference)], 0).differing;
  expect(differing('123456789.123456789', '0.000000013')).toBe(0);
  expect(differing('1440', '-0.016666667')).toBe(1);
  expect(differing('0.016666667', '0.016666667')).toBe(1);
});
