import { Registry } from 'prom-client';
import type { DestinationSettings } from '../../settings/settings.ts';
import type { Tenant } from '../../model/tenant.ts';
import { testTenant } from '../../destinations/testing/context.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../../ledger/testing/events.ts';
import { buildCatalog, type Catalog, type CustomMetric } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';
import { Delivery } from '../delivery.ts';
import type { ExistingDestination } from '../destination-status.ts';
import { createFakeDestination, type FakeDestination } from './fake-destination.ts';
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts';

/** A test that delivers 10,000 events makes 10,521 calls in one turn of the event loop. */
const MOST_CALLS = 20_000;

export const TEST_MAX_BACKFILL_MS = 6 * 3_600_000;

/** Discovery as a test plays it. */
export interface TestTenants {
  set(tenant: Tenant): void;
  remove(id: string): void;
  openGaps: Set<string>;
  /** How often gaps were looked through. */
  readonly gapReads: number;
}

export interface Harness {
  readonly delivery: Delivery;
  readonly ledger: Ledger;
  readonly clock: VirtualClock;
  readonly destination: FakeDestination;
  readonly registry: Registry;
  readonly tenants: TestTenants;
  readonly lines: readonly string[];
  /** Metrics that come into the catalogue. */
  addMetrics(custom: readonly CustomMetric[]): void;
  append(...events: UsageEvent[]): Promise<void>;
  /** Starts delivering to the one destination. */
  start(settings?: Partial<TestSettings>): Promise<void>;
  /** Lets time pass until everything in the ledger is behind the cursor. */
  drained(): Promise<void>;
  stop(): Promise<void>;
}

export type TestSettings = Pick<
  DestinationSettings,
  'name' | 'suspend' | 'startFrom' | 'metrics' | 'late'
>;

export interface DeliveryHarnessOptions {
  readonly ledger?: Ledger;
  readonly clock?: VirtualClock;
  readonly destination?: FakeDestination;
  /** Several destinations by name, instead of the one. */
  readonly destinations?: ReadonlyMap<string, FakeDestination>;
  /** Custom resources that there are. */
  readonly existing?: () => readonly ExistingDestination[];
  readonly othersFeed?: boolean;
}

/** Settings of a destination named like the fake. */
export function testSettings(change: Partial<TestSettings> = {}): DestinationSettings {
  return {
    name: 'fake',
    suspend: false,
    startFrom: 'earliest',
    type: 'noop',
    options: {},
    ...change,
  };
}

/** The delivery engine on a ledger in memory and a clock that tests move. */
export function createHarness(options: DeliveryHarnessOptions = {}): Harness {
  const clock = options.clock ?? createVirtualClock();
  const ledger = options.ledger ?? createMemoryLedger();
  const destination = options.destination ?? createFakeDestination({ now: () => clock.now() });
  const logger = createMemoryLogger();
  const registry = new Registry();
  const known = new Map<string, Tenant>();
  const listeners = new Set<() => void>();
  const openGaps = new Set<string>();
  let gapPolls = 0;
  let catalog = catalogWith([]);
  const limitSteps = createStepLimit();
  const report = (): void => {
    for (const listener of listeners) listener();
  };
  const delivery = new Delivery({
    ledger,
    clock,
    random: () => 0.5,
    logger,
    registry,
    maxBackfillMs: () => TEST_MAX_BACKFILL_MS,
    catalog: () => {
      limitSteps();
      return catalog;
    },
    tenants: {
      find: (id) => known.get(id),
      subscribe: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      openGaps: () => {
        gapPolls += 1;
        return (id) => openGaps.has(id);
      },
    },
    existing: options.existing,
    othersFeed: options.othersFeed,
    createDestination: ({ name }) => ({
      kind: 'created',
      destination: options.destinations?.get(name) ?? destination,
    }),
  });
  const stop = new AbortController();
  let running: Promise<void> | undefined;

  return {
    delivery,
    ledger,
    clock,
    destination,
    registry,
    lines: logger.lines,
    tenants: {
      set: (tenant) => {
        known.set(tenant.id, tenant);
        report();
      },
      remove: (id) => {
        known.delete(id);
        report();
      },
      openGaps,
      get gapReads() {
        return gapPolls;
      },
    },
    addMetrics: (custom) => {
      catalog = catalogWith(custom);
    },
    append: async (...events) => {
      const outcome = await ledger.append({ events });
      if (outcome.kind === 'failed') throw new Error(outcome.message);
    },
    start: async (settings = {}) => {
      running ??= delivery.run(stop.signal);
      await delivery.apply([testSettings(settings)]);
      await clock.settle();
    },
    drained: () =>
      clock.until(() => {
        const [cursor] = ledger.cursors();
        return cursor !== undefined && cursor.sequence === ledger.head();
      }),
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

function catalogWith(custom: readonly CustomMetric[]): Catalog {
  const outcome = buildCatalog(custom);
  if (outcome.kind === 'invalid') throw new Error(outcome.problems.join());
  return outcome.catalog;
}

/**
 * Returns a function that throws once it was called too often before the event loop turns, and from
 * then on. A feeder that takes steps without end would leave the test no time to fail.
 */
function createStepLimit(): () => void {
  let calls = 0;
  return () => {
    if (calls === 0) {
      setImmediate(() => {
        if (calls < MOST_CALLS) calls = 0;
      });
    }
    calls += 1;
    if (calls > MOST_CALLS) throw new Error('endless steps');
  };
}

/** Events of several tenants, `count` windows each, in ledger order; ids `<tenant>-<window>`. */
export function eventsOf(tenants: readonly string[], windows = 1): UsageEvent[] {
  return Array.from({ length: windows }, (_, window) =>
    tenants.map((tenant) =>
      testEvent({
        tenant,
        id: `${tenant}-${window}`,
        windowStart: TEST_WINDOW_START + window * 60_000,
      }),
    ),
  ).flat();
}

export function tenantNamed(id: string, change: Partial<Tenant> = {}): Tenant {
  return testTenant({ id, displayName: id, clusters: [id], ...change });
}
