import type { DestinationSettings } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createCauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Catalog } from '../model/catalog.ts';
import { createAcknowledgements, NO_ACKNOWLEDGEMENTS } from './acknowledgements.ts';
import { createBookKeeping } from './book-keeping.ts';
import { createBootstrap } from './bootstrap.ts';
import { createCircuit } from './circuit.ts';
import { createDeadLetterIndex } from './dead-letters.ts';
import type { DeliveryMetrics } from './delivery-metrics.ts';
import { createDeliveryRecords } from './delivery-records.ts';
import { createEventFilter } from './event-filter.ts';
import { createHealth } from './health.ts';
import { createInFlight } from './in-flight.ts';
import { createOffboarding } from './offboarding.ts';
import { createNeighbours } from './neighbours.ts';
import { createParkedLane } from './parked-lane.ts';
import { createParkedTenants } from './parked-tenants.ts';
import { createPending } from './pending.ts';
import { createReplayLane } from './replay-lane.ts';
import { createReplaySessions } from './replay-sessions.ts';
import { createSendRound } from './send-round.ts';
import { createTenantDirectory } from './tenant-directory.ts';
import { createTenantGate } from './tenant-gate.ts';
import type { TenantSource } from './tenant-source.ts';

export interface FeederOptions {
  readonly settings: DestinationSettings;
  readonly destination: Destination;
  readonly ledger: Ledger;
  readonly tenants: TenantSource;
  readonly catalog: () => Catalog;
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: DeliveryMetrics;
}

/** Everything that a feeder works with, put together for one destination. */
export function createFeederParts(options: FeederOptions) {
  const { settings, destination, ledger, clock, random, logger } = options;
  const { name } = settings;
  const log = createCauseLog(logger, clock);
  const records = createDeliveryRecords(ledger, name);
  const deadLetters = createDeadLetterIndex(records);
  const inFlight = createInFlight(ledger, records, clock, destination.limits.idMemoryMs);
  const catalog = () => options.catalog().metrics;
  const bootstrap = createBootstrap(destination, settings.metrics, catalog);
  const directory = createTenantDirectory(records, options.tenants, options.maxBackfillMs);
  const parked = createParkedTenants({
    records,
    clock,
    random,
    onParked: (tenant, reason) =>
      log.warn(`parked ${tenant}`, `[${name}] tenant ${tenant} is set aside: ${reason}`),
  });
  const gate = createTenantGate({
    destination,
    ledger,
    directory,
    parked,
    clock,
    probe: async (signal) => (await bootstrap.probe(signal)).kind === 'done',
  });
  const acknowledgements =
    destination.totals === undefined
      ? createAcknowledgements(ledger, records)
      : NO_ACKNOWLEDGEMENTS;
  const books = createBookKeeping(ledger, records, clock, {
    deadLetters,
    parked,
    inFlight,
    acknowledgements,
  });
  const pending = createPending(ledger, name);
  const neighbours = createNeighbours({ ledger, records, deadLetters, pending });
  const sendRound = createSendRound({ destination, gate, inFlight, clock, neighbours });
  const replays = createReplaySessions(clock);
  const batchEvents = (): number => destination.limits.batchEvents;
  const lanes = { records, directory, gate, parked, books, sendRound, batchEvents };
  return {
    log,
    records,
    deadLetters,
    inFlight,
    acknowledgements,
    bootstrap,
    directory,
    parked,
    gate,
    books,
    sendRound,
    replays,
    pending,
    circuit: createCircuit(),
    health: createHealth(name, options.metrics, clock),
    parkedLane: createParkedLane(lanes),
    replayLane: createReplayLane(lanes, clock, random, replays.settled),
    offboarding: createOffboarding({
      ...options,
      records,
      gate,
      parked,
      deadLetters,
      onDone: (tenant) => logger.info(`[${name}] tenant ${tenant} offboarded`),
      onRefused: (tenant, reason) =>
        log.warn(`offboard ${tenant}`, `[${name}] tenant ${tenant} not offboarded: ${reason}`),
    }),
    wants: createEventFilter(destination, settings.metrics, (code) => options.catalog().find(code)),
  };
}

export type FeederParts = ReturnType<typeof createFeederParts>;
