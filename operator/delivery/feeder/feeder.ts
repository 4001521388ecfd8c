import type { Destination } from '../../destinations/destination.ts';
import type { DestinationSettings } from '../../settings/settings.ts';
import type { WriteOutcome } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import { CauseLog } from '../../telemetry/cause-log.ts';
import { type BlockReason, graver, retryDelayMs } from '../delivery-result.ts';
import type { DestinationStatus } from '../destination-status.ts';
import type { LaneReport } from '../lanes/parked-lane.ts';
import { TenantDirectory } from '../lanes/tenant-directory.ts';
import { TenantProvisioner } from '../lanes/tenant-provisioner.ts';
import type { PredictCorrection } from '../operations/correction-prediction.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import { FeedOperations, type Operations } from '../operations/operations.ts';
import type { Reconcile } from '../operations/reconcile.ts';
import { Bootstrap } from './bootstrap.ts';
import { Circuit } from './circuit.ts';
import { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from '../delivery-options.ts';
import { feederStatus } from './feeder-status.ts';
import { Health } from './health.ts';
import { Inspection } from './inspection.ts';
import { Lanes } from './lanes.ts';
import { Loop, type NextStep } from './loop.ts';
import { Refusals } from './refusals.ts';
import { SendPass } from './send-pass.ts';
import { findStartPosition, lossText } from './start-position.ts';

/** Interval between attempts at a destination that an operator must fix. */
const PROBE_INTERVAL_MS = 300_000;
/** Longest wait before the next attempt, whatever Retry-After says. */
const LONGEST_WAIT_MS = 3_600_000;

/**
 * Delivers the ledger to one destination, in order, at least once
 * (docs/explanation/delivery.md#what-becomes-of-an-event).
 */
export interface Feeder {
  readonly settings: DestinationSettings;
  /** Absent if the settings are unusable. */
  readonly destination?: Destination;
  /** Operations for a human operator: dead letters, replay, discard, cursor moves. */
  readonly operations: Operations;
  readonly reconcile: Reconcile;
  readonly predictCorrection: PredictCorrection;
  /** Absent if the destination makes no invoices, or does not report them. */
  readonly invoices?: InvoiceReconcile;
  /** Begins delivery. A suspended destination only finds its cursor. */
  start(): void;
  /** Stops after the current batch, within ten seconds, and closes the destination. */
  stop(): Promise<void>;
  status(): DestinationStatus;
  offboard(tenant: Tenant): Promise<WriteOutcome>;
  /** Wakes a waiting feeder, for example after a change of the catalogue. */
  wake(): void;
}

export class DestinationFeeder implements Feeder {
  readonly settings: DestinationSettings;
  readonly destination: Destination;
  readonly operations: Operations;
  readonly reconcile: Reconcile;
  readonly predictCorrection: PredictCorrection;
  readonly invoices?: InvoiceReconcile;
  readonly #options: FeederOptions;
  readonly #log: CauseLog;
  readonly #feed: FeedRecords;
  readonly #bootstrap: Bootstrap;
  readonly #provisioner: TenantProvisioner;
  readonly #inspection: Inspection;
  readonly #sendPass: SendPass;
  readonly #lanes: Lanes;
  readonly #circuit = new Circuit();
  readonly #refusals = new Refusals();
  readonly #health: Health;
  readonly #loop: Loop;
  readonly #unsubscribe: () => void;
  /** Whether the cursor is known. False again after somebody else moved it. */
  #opened = false;
  #tenantsChanged = false;
  /** Failed reads of the ledger in a row. */
  #failedReads = 0;

  constructor(options: FeederOptions) {
    const { settings, destination, ledger, clock, logger } = options;
    const loop = new Loop(clock, (signal) => this.#step(signal));
    const wake = () => loop.wake();
    const refresh = () => {
      this.#tenantsChanged = true;
      loop.wake();
    };
    const log = new CauseLog(logger, clock);
    const feed = new FeedRecords(options, log);
    const { records, deadLetters, inFlight } = feed;
    const catalog = () => options.catalog().metrics;
    const bootstrap = new Bootstrap(destination, settings.metrics, catalog);
    const directory = new TenantDirectory(records, options.tenants, options.maxBackfillMs);
    const provisioner = new TenantProvisioner({
      destination,
      ledger,
      directory,
      parked: feed.parked,
      changes: feed.changes,
      planChange: settings.planChange ?? 'now',
      clock,
      probe: async (signal) => (await bootstrap.probe(signal)).kind === 'done',
    });
    const inspection = new Inspection(options, feed, directory, (tenant) => {
      provisioner.recheck(tenant);
      refresh();
    });
    const { reconcile, predictCorrection, invoices, closedPeriods } = inspection;
    const tenants = { directory, provisioner };
    const sendPass = new SendPass(options, feed, tenants, invoices);
    const lanes = new Lanes(
      { ...options, ...tenants, sendPass, reconcile, log, wake },
      feed,
      (report) => this.#count(report),
    );
    this.settings = settings;
    this.destination = destination;
    this.#options = options;
    this.#log = log;
    this.#feed = feed;
    this.#bootstrap = bootstrap;
    this.#provisioner = provisioner;
    this.#inspection = inspection;
    this.#sendPass = sendPass;
    this.#lanes = lanes;
    this.#health = new Health(settings.name, options.metrics, clock);
    this.#loop = loop;
    this.#unsubscribe = options.tenants.subscribe(refresh);
    this.operations = new FeedOperations({
      settings,
      destination,
      ledger,
      records,
      deadLetters,
      inFlight,
      clock,
      closedPeriods,
      replays: lanes.replays,
      paused: (action) =>
        loop.pausedWhile(async () => {
          this.#opened = false;
          return action();
        }),
      sendNow: () => loop.wakeNow(),
    });
    this.reconcile = reconcile;
    this.predictCorrection = predictCorrection;
    if (invoices !== undefined) this.invoices = invoices;
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#lanes.stop();
    await this.#loop.stop();
    await this.destination.close();
  }

  wake(): void {
    this.#loop.wake();
  }

  async offboard(tenant: Tenant): Promise<WriteOutcome> {
    const outcome = await this.#lanes.offboarding.request(tenant);
    this.#loop.wake();
    return outcome;
  }

  status(): DestinationStatus {
    return feederStatus(this.#options, {
      feed: this.#feed,
      health: this.#health,
      bootstrap: this.#bootstrap,
      circuit: this.#circuit,
      inspection: this.#inspection,
    });
  }

  async #step(signal: AbortSignal): Promise<NextStep> {
    const outcome = await this.#advance(signal).catch(
      (error: unknown): BlockReason => ({
        kind: 'retry',
        reason: `delivery failed: ${errorText(error)}`,
      }),
    );
    if (outcome === undefined) return { kind: 'continue' };
    if (outcome === 'suspended') return { kind: 'end' };
    if (outcome !== 'idle') return { kind: 'blocked', ms: this.#waitAfter(outcome) };
    this.#health.recovered();
    const { ledger } = this.#options;
    const position = this.#feed.pending.position();
    const changed = (ended: AbortSignal): Promise<void> => ledger.changed(position, ended);
    return { kind: 'wait', changed, ms: this.#lanes.dueIn() };
  }

  /** Takes the next step. Returns why nothing goes on; undefined to continue at once. */
  async #advance(signal: AbortSignal): Promise<BlockReason | 'idle' | 'suspended' | undefined> {
    const { pending } = this.#feed;
    if (!this.#opened) return this.#open();
    if (this.settings.suspend) return 'suspended';
    const unready = await this.#bootstrap.ensure(signal);
    if (unready !== undefined) return unready;
    if (this.#tenantsChanged) {
      this.#tenantsChanged = false;
      const failed = await this.#provisioner.refresh(signal);
      if (failed !== undefined) this.#tenantsChanged = true;
      if (failed?.kind === 'blocked') return failed;
    }
    if (pending.isEmpty()) {
      const outcome = await this.#readOn(signal);
      if (pending.isEmpty()) return outcome;
    }
    const blocked = await this.#sendPending(signal);
    return (await this.#commit()) ?? blocked;
  }

  /** Finds the cursor and loads the events that were set aside. Nothing is sent before. */
  async #open(): Promise<BlockReason | undefined> {
    const { ledger, clock, logger } = this.#options;
    const start = await findStartPosition(ledger, this.#feed.records, this.settings, clock.now());
    if (start.kind === 'failed') return { kind: 'retry', reason: start.message };
    if (start.kind === 'blocked') return start;
    const lost = lossText(start, ledger.lowWater());
    if (lost !== undefined) logger.error(`[${this.settings.name}] ${lost}`);
    await this.#feed.open(start.sequence, start.state.resentUntil);
    this.#opened = true;
    return undefined;
  }

  /** Steps the lanes, then reads the next batch. */
  async #readOn(signal: AbortSignal): Promise<BlockReason | 'idle' | undefined> {
    const { pending } = this.#feed;
    const served = await this.#lanes.step(signal);
    if (served.blocked !== undefined) return served.blocked;
    const { batchEvents: events, batchBytes: bytes } = this.destination.limits;
    const { wants } = this.#inspection;
    const position = pending.position();
    const unread = await pending.read({ events, wants, bytes });
    this.#failedReads = unread === undefined ? 0 : this.#failedReads + 1;
    if (unread !== undefined) return unread;
    const moved = served.moved || pending.position() !== position;
    return pending.isEmpty() && !moved ? 'idle' : undefined;
  }

  async #sendPending(signal: AbortSignal): Promise<BlockReason | undefined> {
    const { pending, parked } = this.#feed;
    const circuit = this.#circuit;
    const tried = circuit.choose(pending.open());
    if (tried.length === 0) return undefined;
    const pass = await this.#sendPass.send(tried, signal);
    const results = new Map(pass.results);
    const blocked = graver(pass.blocked, this.#refusals.withhold(tried, results));
    pending.settle(results);
    const report = { moved: false, accepted: 0, rejected: 0 };
    for (const { sequence, event } of tried) {
      const result = results.get(sequence);
      if (result === undefined) continue;
      circuit.clear(sequence);
      if (result.kind === 'delivered') report.accepted += 1;
      if (result.kind !== 'dead') continue;
      report.rejected += 1;
      const what = `event ${event.id} of tenant ${event.tenant}`;
      this.#log.warn(
        result.reason,
        `[${this.settings.name}] dead letter: ${what}: ${result.reason}`,
      );
    }
    this.#count(report);
    if (blocked === undefined) return undefined;
    this.#health.retried(tried.length - results.size);
    if (blocked.kind === 'retry') circuit.failed(tried, blocked.afterMs !== undefined);
    const poison = circuit.poisonEvent(pending.open());
    if (poison !== undefined) {
      circuit.clear(poison.sequence);
      const reason = `keeps failing while others are accepted: ${blocked.reason}`;
      parked.add(poison.event.tenant, reason);
    }
    return blocked;
  }

  /** Moves the cursor over settled events, even if later events are blocked. */
  async #commit(): Promise<BlockReason | undefined> {
    const { pending, settlements } = this.#feed;
    const report = await pending.commit((passed) => settlements.recordsOf(passed));
    if (report.kind === 'committed') {
      settlements.written(report.passed);
      const unwanted = report.passed.filter(({ result }) => result.kind === 'skipped').length;
      this.#health.skipped(unwanted);
      return undefined;
    }
    // Somebody else has moved the cursor: begin again from where it is.
    if (this.#feed.cursor() !== pending.position()) this.#opened = false;
    return { kind: 'retry', reason: report.message };
  }

  #count({ accepted, rejected }: LaneReport): void {
    this.#health.accepted(accepted);
    this.#health.rejected(rejected);
    if (accepted === 0) return;
    this.#circuit.succeeded();
    this.#refusals.accepted();
  }

  /** Notes and logs the reason. Returns the wait before the next attempt, milliseconds. */
  #waitAfter(blocked: BlockReason): number {
    const { name } = this.settings;
    const bootstrap = this.#bootstrap;
    const circuit = this.#circuit;
    this.#health.blocked(blocked);
    const preparing = this.#opened && !bootstrap.isReady();
    const where = preparing ? `[bootstrap] warning: ${name}:` : `[${name}]`;
    this.#log.warn(blocked.reason, `${where} ${blocked.reason}`);
    if (blocked.kind === 'blocked') {
      circuit.trip();
      return PROBE_INTERVAL_MS;
    }
    const failures = Math.max(this.#failedReads, circuit.failures(), bootstrap.failures(), 1);
    const delay = retryDelayMs(failures, this.#options.random);
    return Math.min(LONGEST_WAIT_MS, Math.max(blocked.afterMs ?? 0, delay));
  }
}
