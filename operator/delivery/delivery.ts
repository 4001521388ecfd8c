import type { Registry } from 'prom-client';
import type { DestinationSettings } from '../config/settings.ts';
import type { CustomerAnswer, Destination } from '../destinations/destination.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { Tenant } from '../model/tenant.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import { sameDestination } from '../destinations/registry.ts';
import type { Ledger, WriteOutcome } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Catalog } from '../model/catalog.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import type { DestinationStatus } from './destination-status.ts';
import { createFeeder, type Feeder } from './feeder.ts';
import type { DeadLetterPage, DiscardOutcome, MoveOutcome, ReplayOutcome } from './operations.ts';
import type { ReconcileOutcome } from './reconcile.ts';
import type { ReconcileQuery } from './reconcile-sums.ts';
import type { TenantSource } from './tenant-source.ts';
import { createUnusable } from './unusable.ts';

export interface UnknownDestination {
  readonly kind: 'unknown-destination';
}

/**
 * The delivery engine: one feeder for each destination, each with its own cursor, so that trouble at
 * one never delays another (design 10).
 */
export interface Delivery {
  /**
   * The destinations that there should be from now on: new ones start, changed ones restart, the
   * cursors of those that are gone are retired. The first call must name all there are, custom
   * resources included. Nothing is sent before {@link Delivery.run}.
   */
  apply(destinations: readonly DestinationSettings[]): Promise<void>;
  /** Delivers until the signal is aborted, then ends in good order. */
  run(signal: AbortSignal): Promise<void>;
  /** Ends all feeders after their batch under way, within ten seconds. */
  close(): Promise<void>;

  status(name: string): DestinationStatus | undefined;
  statuses(): readonly DestinationStatus[];
  /** Durably asks every destination to offboard a tenant once its last event is through. */
  offboard(tenant: Tenant): Promise<WriteOutcome>;

  /** Undefined when there is no such destination. */
  deadLetters(name: string, after: number, limit: number): Promise<DeadLetterPage | undefined>;
  replay(
    name: string,
    ids: readonly string[] | undefined,
  ): Promise<ReplayOutcome | UnknownDestination>;
  discard(
    name: string,
    ids: readonly string[] | undefined,
  ): Promise<DiscardOutcome | UnknownDestination>;
  moveCursor(name: string, sequence: number): Promise<MoveOutcome | UnknownDestination>;
  /** Which tenants a customer of a billing system is, as any destination is told by it. */
  tenantsOf(
    system: DestinationType,
    customer: string,
    signal: AbortSignal,
  ): Promise<CustomerAnswer>;
  /** The ledger's sums against what the destination acknowledged, and against what it says it has. */
  reconcile(
    name: string,
    query: ReconcileQuery,
    signal: AbortSignal,
  ): Promise<ReconcileOutcome | UnknownDestination>;
}

export interface DeliveryOptions {
  readonly ledger: Ledger;
  readonly createDestination: CreateDestination;
  readonly tenants: TenantSource;
  readonly catalog: () => Catalog;
  /** Destinations that exist although their settings cannot be used at the moment: their cursors stay as they are. */
  readonly unusable?: () => readonly string[];
  /** MAX_BACKFILL as it is set now. */
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}

export function createDelivery(options: DeliveryOptions): Delivery {
  const { ledger, clock, logger } = options;
  const feeders = new Map<string, Feeder>();
  const destinations = new Map<string, Destination>();
  let wanted: readonly DestinationSettings[] = [];
  let running = false;
  let changes: Promise<void> = Promise.resolve();

  const statuses = (): readonly DestinationStatus[] =>
    [...feeders.values()].map((feeder) => feeder.status());
  const metrics = createDeliveryMetrics(options.registry, () => {
    const lags = statuses().map(
      ({ name, lagEvents: events, lagSeconds: seconds }) => [name, { events, seconds }] as const,
    );
    return new Map(lags);
  });

  const start = (settings: DestinationSettings): void => {
    const outcome = options.createDestination(settings);
    if (outcome.kind === 'invalid') {
      logger.error(`[${settings.name}] cannot be used: ${outcome.reason}`);
      feeders.set(settings.name, createUnusable(settings, outcome.reason, options));
      return;
    }
    const feeder = createFeeder({
      ...options,
      settings,
      metrics,
      destination: outcome.destination,
    });
    feeders.set(settings.name, feeder);
    destinations.set(settings.name, outcome.destination);
    feeder.start();
  };

  const retireOthers = async (): Promise<void> => {
    const unusable = new Set(options.unusable?.() ?? []);
    for (const { destination, retiredAt } of ledger.cursors()) {
      if (feeders.has(destination) || unusable.has(destination)) continue;
      if (retiredAt !== undefined) continue;
      const outcome = await ledger.retireCursor(destination, clock.now());
      if (outcome.kind === 'failed') logger.warn(`[${destination}] ${outcome.message}`);
      else logger.info(`[${destination}] destination is gone, its cursor is retired`);
    }
  };

  const reconcile = async (): Promise<void> => {
    if (!running) return;
    const byName = new Map(wanted.map((settings) => [settings.name, settings]));
    const stale = [...feeders].filter(([name, feeder]) => {
      const settings = byName.get(name);
      return settings === undefined || !sameDestination(settings, feeder.settings);
    });
    await Promise.all(stale.map(([, feeder]) => feeder.stop()));
    for (const [name] of stale) {
      feeders.delete(name);
      destinations.delete(name);
      if (!byName.has(name)) metrics.remove(name);
    }
    for (const [name, settings] of byName) {
      const feeder = feeders.get(name);
      if (feeder === undefined) start(settings);
      else feeder.wake();
    }
    await retireOthers();
  };

  /** One change at a time; a failure of one does not stop those after it. */
  const inTurn = (action: () => Promise<void>): Promise<void> => {
    changes = changes.then(action).catch((error: unknown) => {
      logger.error(`[delivery] ${error instanceof Error ? error.message : String(error)}`);
    });
    return changes;
  };

  const close = (): Promise<void> =>
    inTurn(async () => {
      running = false;
      await Promise.all([...feeders.values()].map((feeder) => feeder.stop()));
      feeders.clear();
      destinations.clear();
    });

  const withFeeder = async <T>(
    name: string,
    action: (feeder: Feeder) => Promise<T>,
  ): Promise<T | UnknownDestination> => {
    const feeder = feeders.get(name);
    return feeder === undefined ? { kind: 'unknown-destination' } : action(feeder);
  };

  return {
    apply: (destinations) => {
      wanted = destinations;
      return inTurn(reconcile);
    },
    run: async (signal) => {
      if (signal.aborted) return;
      running = true;
      await inTurn(reconcile);
      await new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
        if (signal.aborted) resolve();
      });
      await close();
    },
    close,

    status: (name) => feeders.get(name)?.status(),
    statuses,
    offboard: async (tenant) => {
      const outcomes = await Promise.all(
        [...feeders.values()].map((feeder) => feeder.offboard(tenant)),
      );
      return outcomes.find(({ kind }) => kind === 'failed') ?? { kind: 'written' };
    },

    deadLetters: async (name, after, limit) => feeders.get(name)?.deadLetters(after, limit),
    replay: (name, ids) => withFeeder(name, (feeder) => feeder.replay(ids)),
    discard: (name, ids) => withFeeder(name, (feeder) => feeder.discard(ids)),
    moveCursor: (name, sequence) => withFeeder(name, (feeder) => feeder.moveCursor(sequence)),
    tenantsOf: async (system, customer, signal) => {
      let answer: CustomerAnswer = { kind: 'unknown' };
      for (const destination of destinations.values()) {
        const next: CustomerAnswer =
          (await destination.tenantsOf?.(system, customer, signal)) ?? answer;
        if (next.kind === 'tenants') return next;
        if (next.kind === 'failed') answer = next;
      }
      return answer;
    },
    reconcile: (name, query, signal) =>
      withFeeder(name, (feeder) => feeder.reconcile(query, signal)),
  };
}
