import type { DestinationSettings } from '../../config/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Catalog } from '../../model/catalog.ts';
import { CauseLog } from '../../telemetry/cause-log.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { DeliveryMetrics } from '../delivery-metrics.ts';
import { createOffboarding, type Offboarding } from '../lanes/offboarding.ts';
import { createParkedLane } from '../lanes/parked-lane.ts';
import { createParkedTenants } from '../lanes/parked-tenants.ts';
import { createPlanChanges } from '../lanes/plan-changes.ts';
import { createReplayLane, createReplaySessions } from '../lanes/replay-lane.ts';
import { createTenantDirectory, type TenantSource } from '../lanes/tenant-directory.ts';
import { createTenantProvisioner } from '../lanes/tenant-provisioner.ts';
import { createUsageToCome } from '../lanes/usage-to-come.ts';
import { LateLines } from '../late/late-lines.ts';
import { createAcknowledgements, NO_ACKNOWLEDGEMENTS } from '../records/acknowledgements.ts';
import { createDeadLetterIndex } from '../records/dead-letters.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import { createInFlight } from '../records/in-flight.ts';
import { createSettlementWriter } from '../records/settlement-writer.ts';
import { createClosedPeriods } from '../operations/closed-periods.ts';
import { createDoubtfulLetters } from '../operations/doubtful-letters.ts';
import { createReconcile } from '../operations/reconcile.ts';
import { createBootstrap } from './bootstrap.ts';
import { createChangeParts } from './change-parts.ts';
import { createCircuit } from './circuit.ts';
import { createCorrectionGate } from './correction-gate.ts';
import { createEventFilter, unknownMetrics } from './event-filter.ts';
import { createHealth } from './health.ts';
import { invoicesOf } from './invoices-of.ts';
import { createLateParts } from './late-parts.ts';
import { Pending } from './pending.ts';
import { Refusals } from './refusals.ts';
import { createSendRound } from './send-round.ts';
import { createVerification } from './verification.ts';

export interface FeederOptions {
  readonly settings: DestinationSettings;
  readonly destination: Destination;
  readonly ledger: Ledger;
  /** As in {@link DeliveryOptions}. */
  readonly mayAppend?: boolean;
  readonly tenants: TenantSource;
  readonly catalog: () => Catalog;
  readonly maxBackfillMs: () => number;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: DeliveryMetrics;
}

/**
 * Everything that a feeder works with, put together for one destination; `wake` when there is something to do,
 * `refresh` when tenants are to be provisioned again.
 */
export function createFeederParts(options: FeederOptions, wake: () => void, refresh: () => void) {
  const { settings, destination, ledger, clock, random, logger } = options;
  const { name } = settings;
  const log = new CauseLog(logger, clock);
  const records = createDeliveryRecords(ledger, name);
  const deadLetters = createDeadLetterIndex(records);
  const inFlight = createInFlight(ledger, records, clock, destination.limits.idMemoryMs);
  const acknowledgements =
    destination.totals === undefined
      ? createAcknowledgements(ledger, records)
      : NO_ACKNOWLEDGEMENTS;
  const catalog = () => options.catalog().metrics;
  const find = (code: string) => options.catalog().find(code);
  const bootstrap = createBootstrap(destination, settings.metrics, catalog);
  const directory = createTenantDirectory(records, options.tenants, options.maxBackfillMs);
  const parked = createParkedTenants({
    records,
    clock,
    random,
    onParked: (tenant, reason) =>
      log.warn(`parked ${tenant}`, `[${name}] tenant ${tenant} is set aside: ${reason}`),
  });
  // Who is being offboarded is known once its lane is there.
  const leaving: { lane?: Pick<Offboarding, 'isAsked'> } = {};
  const isLeaving = (tenant: string): boolean => leaving.lane?.isAsked(tenant) ?? false;
  const planChange = settings.planChange ?? 'now';
  const changes = createPlanChanges({
    destination,
    planChange,
    ledger,
    records,
    deadLetters,
    clock,
    isLeaving,
  });
  const provisioner = createTenantProvisioner({
    destination,
    ledger,
    directory,
    parked,
    changes,
    planChange,
    clock,
    probe: async (signal) => (await bootstrap.probe(signal)).kind === 'done',
  });
  const settlements = createSettlementWriter({
    ledger,
    records,
    clock,
    deadLetters,
    parked,
    inFlight,
    acknowledgements,
  });
  const describe = (tenant: string) => directory.find(tenant);
  const pending = new Pending(ledger, name);
  const stored = { destination, ledger, records, deadLetters, changes };
  const verify = createVerification({ ...stored, pending, inFlight });
  const lateLines = new LateLines({ ...options, name, records });
  const corrections = createCorrectionGate({
    destination,
    records,
    deadLetters,
    lateLines,
    pending,
  });
  const wants = createEventFilter(destination, settings.metrics, find);
  const cursor = (): number =>
    ledger.cursors().find(({ destination: own }) => own === name)?.sequence ?? 0;
  const recheck = (tenant: string): void => {
    provisioner.recheck(tenant);
    refresh();
  };
  const invoices = invoicesOf(options, { ...stored, wants, directory, recheck }, cursor);
  const lateParts = createLateParts({
    ...options,
    inFlight,
    directory,
    corrections,
    verify,
    isLeaving,
    log,
    lines: lateLines,
    invoices,
    deadLetters,
    changes,
  });
  const sendRound = createSendRound({
    destination,
    provisioner,
    changes,
    parked,
    inFlight,
    clock,
    verify,
    corrections,
    late: lateParts.gate,
  });
  const passed = () => {
    const at = cursor();
    return (sequence: number): boolean => sequence <= at;
  };
  const reconcile = createReconcile({ ...stored, acknowledgements, wants, passed, describe });
  const usageToCome = createUsageToCome(options);
  const tenantLane = { ...stored, provisioner, parked, directory, usageToCome, isLeaving };
  const offboarding = createOffboarding({
    ...options,
    ...tenantLane,
    onDone: (tenant) => logger.info(`[${name}] tenant ${tenant} offboarded`),
    onRefused: (tenant, reason) =>
      log.warn(`offboard ${tenant}`, `[${name}] tenant ${tenant} not offboarded: ${reason}`),
  });
  leaving.lane = offboarding;
  const replays = createReplaySessions(clock);
  const batchEvents = (): number => destination.limits.batchEvents;
  const lane = { records, settlements, sendRound, batchEvents };
  const changeParts = createChangeParts({
    ...options,
    ...tenantLane,
    name,
    wants,
    hasPassed: (sequence) => passed()(sequence),
    reconcile,
    verify,
    log,
    wake,
  });
  return {
    log,
    records,
    deadLetters,
    inFlight,
    acknowledgements,
    lateLines,
    lateLane: lateParts.lane,
    bootstrap,
    directory,
    parked,
    provisioner,
    settlements,
    sendRound,
    replays,
    pending,
    circuit: createCircuit(),
    refusals: new Refusals(),
    health: createHealth(name, options.metrics, clock),
    parkedLane: createParkedLane({
      ...lane,
      provisioner,
      directory,
      parked,
      changes,
      isParking: (tenant) => pending.isParking(tenant),
    }),
    replayLane: createReplayLane({ ...lane, clock, random, onSettled: replays.settled }),
    offboarding,
    changes,
    ...changeParts,
    reconcile,
    wants,
    invoices,
    doubtfulLetters: createDoubtfulLetters({ destination, inFlight, clock }),
    closedPeriods: createClosedPeriods({
      invoices,
      changes,
      wants,
      effect: destination.closedPeriods,
      late: settings.late,
    }),
    unknownMetrics: () => unknownMetrics(settings.metrics, find),
  };
}

export type FeederParts = ReturnType<typeof createFeederParts>;
