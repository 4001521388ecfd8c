import { Registry } from 'prom-client';
import type { DestinationSettings } from '../../operator/settings/settings.ts';
import { destinationClaims } from '../../operator/controllers/destination-status.ts';
import { Delivery } from '../../operator/delivery/delivery.ts';
import { createMortalProcess, type MortalProcess } from '../../operator/delivery/testing/crash.ts';
import { createDestinationRegistry } from '../../operator/destinations/registry.ts';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import { silentLogger } from '../../operator/ledger/testing/level-ledger.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { buildCatalog } from '../../operator/model/catalog.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import type { Tenant } from '../../operator/model/tenant.ts';
import { createOutbound, type Outbound } from '../../operator/outbound/outbound.ts';
import { createIdleClock, type IdleClock } from '../faults/subject/idle-clock.ts';
import { TRUE_TIME_HEADER } from '../faults/vendors/stand-in.ts';

/** Whatever else a condition may be of, it tells that usage is not billed. */
const NOT_ATTENTION: readonly string[] = ['Ready', 'Bootstrapped', 'Delivering'];
const NAME = 'bills';
const SECOND_MS = 1_000;
const MAX_BACKFILL_MS = 6 * 3_600_000;

/** Ledger and delivery with one real destination, through months that take seconds. */
export interface Engine {
  readonly clock: IdleClock;
  readonly ledger: Ledger;
  readonly delivery: () => Delivery;
  /** Lets time pass, and everything happen that is due by then. */
  readonly passTo: (at: number) => Promise<void>;
  readonly append: (events: readonly UsageEvent[], windowEnd?: number) => Promise<void>;
  /** The tenant as discovery knows it from now on. */
  readonly discover: (tenant: Tenant) => void;
  readonly forget: (tenant: Tenant) => void;
  /** Its last usage is in the ledger: a tenant that is still gone is offboarded. */
  readonly offboard: (tenant: Tenant) => Promise<void>;
  /** Holds the invoices against what was delivered. */
  readonly lookAtInvoices: () => Promise<void>;
  /** The conditions that ask for attention now. */
  readonly conditions: () => readonly string[];
  /** The process is gone, and so long later there is another one, which is to die after so many awaits. */
  readonly restart: (downtimeMs: number, awaits?: number) => Promise<void>;
  /** Whether the process has died. */
  readonly isDead: () => boolean;
  readonly stop: () => Promise<void>;
}

export interface EngineOptions {
  readonly settings: Pick<DestinationSettings, 'type' | 'options' | 'late' | 'planChange'>;
  readonly beginning: number;
  /** Turns the billing system's clock. */
  readonly turnTo: (at: number) => void;
}

/** What outlives a process. */
interface Estate {
  readonly ledger: Ledger;
  readonly tenants: Map<string, Tenant>;
  /** Tenants that have gone: a process that did not hear of it is told. */
  readonly gone: Map<string, Tenant>;
  readonly listeners: Set<() => void>;
}

interface Process {
  readonly delivery: Delivery;
  readonly mortal: MortalProcess;
  readonly stop: () => Promise<void>;
}

export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { beginning, turnTo: sliceTo } = options;
  const start = { elapsed: 0, stepped: 0 };
  const clock = createIdleClock(start, ({ elapsed }) => sliceTo(beginning + elapsed), beginning);
  sliceTo(beginning);
  const estate: Estate = {
    ledger: createMemoryLedger(),
    tenants: new Map(),
    gone: new Map(),
    listeners: new Set(),
  };
  const { ledger, tenants, gone } = estate;
  clock.run();
  let current = await startProcess(options, clock, estate);
  while (current.delivery.status(NAME)?.bootstrapped !== true) await clock.sleep(SECOND_MS);
  const report = (): void => {
    for (const listener of estate.listeners) listener();
  };
  const { signal } = new AbortController();

  return {
    clock,
    ledger,
    delivery: () => current.delivery,
    passTo: (at) => clock.sleep(Math.max(0, at - clock.now())),
    append: async (events, windowEnd) => {
      const outcome = await ledger.append({ events, windowEnd });
      if (outcome.kind !== 'appended') throw new Error(outcome.message);
    },
    discover: (tenant) => {
      gone.delete(tenant.id);
      tenants.set(tenant.id, tenant);
      report();
    },
    forget: ({ id }) => {
      tenants.delete(id);
      report();
    },
    offboard: async (tenant) => {
      if (tenants.has(tenant.id)) return;
      gone.set(tenant.id, tenant);
      await Promise.race([current.delivery.offboard(tenant), current.mortal.died]);
    },
    lookAtInvoices: async () => {
      const { delivery, mortal } = current;
      const failed = await Promise.race([delivery.checkInvoices(NAME, 100, signal), mortal.died]);
      if (failed !== undefined) throw new Error(failed.message);
    },
    conditions: () => conditionsOf(current.delivery),
    restart: async (downtimeMs, awaits) => {
      current.mortal.kill();
      estate.listeners.clear();
      await clock.sleep(downtimeMs);
      current = await startProcess(options, clock, estate, awaits);
    },
    isDead: () => current.mortal.dead,
    stop: async () => {
      await current.stop();
      clock.stop();
    },
  };
}

async function startProcess(
  { settings }: EngineOptions,
  clock: IdleClock,
  { ledger, tenants, gone, listeners }: Estate,
  awaits = Number.POSITIVE_INFINITY,
): Promise<Process> {
  const catalog = buildCatalog([]);
  if (catalog.kind === 'invalid') throw new Error(catalog.problems.join());
  const registry = new Registry();
  const mortal = createMortalProcess(awaits);
  const create = createDestinationRegistry({
    outbound: outboundDuring(clock, registry),
    // Time stands still while a request is under way, so that nobody may wait for it to pass in between.
    clock: { ...clock, sleep: async () => undefined },
    logger: silentLogger,
  });
  const delivery = new Delivery({
    ledger: mortal.ledger(ledger),
    clock,
    registry,
    random: () => 0.5,
    logger: silentLogger,
    maxBackfillMs: () => MAX_BACKFILL_MS,
    catalog: () => catalog.catalog,
    tenants: {
      find: (id) => tenants.get(id),
      subscribe: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    },
    createDestination: (wanted) => {
      const outcome = create(wanted);
      return outcome.kind === 'created'
        ? { ...outcome, destination: mortal.destination(outcome.destination) }
        : outcome;
    },
  });
  const applying = delivery.apply([
    { name: NAME, suspend: false, startFrom: 'earliest', ...settings },
  ]);
  await Promise.race([applying, mortal.died]);
  const ending = new AbortController();
  const running = delivery.run(ending.signal);
  while (!mortal.dead && delivery.status(NAME) === undefined) await clock.sleep(SECOND_MS);
  for (const tenant of gone.values()) {
    await Promise.race([delivery.offboard(tenant), mortal.died]);
  }
  return {
    delivery,
    mortal,
    stop: async () => {
      ending.abort();
      await Promise.race([running, mortal.died]);
    },
  };
}

function conditionsOf(delivery: Delivery): readonly string[] {
  const [progress] = delivery.statuses();
  if (progress === undefined) throw new Error('no destination');
  const claims = destinationClaims({
    specStatus: { kind: 'accepted' },
    suspended: false,
    progress,
  });
  return claims.map(({ type }) => type).filter((type) => !NOT_ATTENTION.includes(type));
}

/** The network, for which time waits. */
function outboundDuring(clock: IdleClock, registry: Registry): Outbound {
  const real = createOutbound({ registry, clock, userAgent: 'meterfeed/months' });
  return {
    ...real,
    client: (options) => {
      const client = real.client(options);
      return {
        request: (request) => {
          const headers = { ...request.headers, [TRUE_TIME_HEADER]: String(clock.trueTime()) };
          return clock.during(() => client.request({ ...request, headers }));
        },
        close: () => client.close(),
      };
    },
  };
}
