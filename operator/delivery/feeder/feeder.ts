import type { DestinationSettings } from '../../config/settings.ts';
import type { WriteOutcome } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Tenant } from '../../model/tenant.ts';
import { type BlockReason, graver, retryDelayMs } from '../delivery-result.ts';
import type { DestinationStatus } from '../destination-status.ts';
import type { LaneReport } from '../lanes/parked-lane.ts';
import {
  createCorrectionOutlook,
  type CorrectionOutlookOf,
} from '../operations/correction-outlook.ts';
import { createOperations, type Operations } from '../operations/operations.ts';
import type { InvoiceReconcile } from '../operations/invoice-reconcile.ts';
import type { Reconcile } from '../operations/reconcile.ts';
import { createFeederParts, type FeederOptions, type FeederParts } from './feeder-parts.ts';
import { feederStatus } from './feeder-status.ts';
import { createLoop, type Loop, type NextStep } from './loop.ts';
import { SetAside } from './set-aside.ts';
import { findStartPosition, lossText } from './start-position.ts';

/** How often a destination that an operator must mend is tried again. */
const PROBE_INTERVAL_MS = 300_000;
/** No Retry-After is believed beyond this. */
const LONGEST_WAIT_MS = 3_600_000;

/** Delivers the ledger to one destination, in order, at least once (docs/delivery.md#what-becomes-of-an-event). */
export interface Feeder {
  readonly settings: DestinationSettings;
  /** What an operator may do about it. */
  readonly operations: Operations;
  readonly reconcile: Reconcile;
  readonly correctionOutlook: CorrectionOutlookOf;
  /** Absent where the destination makes no invoices, or cannot tell of them. */
  readonly invoices?: InvoiceReconcile;
  /** Begins delivering; a suspended one only finds its place. */
  start(): void;
  /** Ends after the batch under way, within ten seconds, and closes the destination. */
  stop(): Promise<void>;
  status(): DestinationStatus;
  offboard(tenant: Tenant): Promise<WriteOutcome>;
  /** The catalogue may have changed. */
  wake(): void;
}

export function createFeeder(options: FeederOptions): Feeder {
  return new DestinationFeeder(options);
}

class DestinationFeeder implements Feeder {
  readonly settings: DestinationSettings;
  readonly operations: Operations;
  readonly reconcile: Reconcile;
  readonly correctionOutlook: CorrectionOutlookOf;
  readonly invoices?: InvoiceReconcile;
  readonly #options: FeederOptions;
  readonly #parts: FeederParts;
  readonly #setAside: SetAside;
  readonly #loop: Loop;
  readonly #unsubscribe: () => void;
  /** The cursor is known; false again after somebody else has moved it. */
  #opened = false;
  #tenantsChanged = false;
  /** In a row. */
  #failedReads = 0;

  constructor(options: FeederOptions) {
    const { settings, destination, ledger, clock } = options;
    const refresh = (): void => {
      this.#tenantsChanged = true;
      this.#loop.wake();
    };
    const parts = createFeederParts(options, () => this.#loop.wake(), refresh);
    const { records, deadLetters } = parts;
    const loop = createLoop(clock, (signal) => this.#step(signal));
    this.settings = settings;
    this.#options = options;
    this.#parts = parts;
    this.#setAside = new SetAside(parts, (report) => this.#count(report));
    this.#loop = loop;
    this.#unsubscribe = options.tenants.subscribe(refresh);
    this.operations = createOperations({
      settings,
      destination,
      ledger,
      records,
      deadLetters,
      replays: parts.replays,
      closedPeriods: parts.closedPeriods,
      doubtfulLetters: parts.doubtfulLetters,
      paused: (action) =>
        loop.pausedWhile(async () => {
          this.#opened = false;
          return action();
        }),
      wakeReplay: () => {
        parts.replayLane.wake();
        loop.wakeNow();
      },
    });
    this.reconcile = parts.reconcile;
    const cursor = (): number | undefined => this.#cursor();
    if (parts.invoices !== undefined) this.invoices = parts.invoices;
    this.correctionOutlook = createCorrectionOutlook({ ...parts, destination, clock, cursor });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#parts.arrived.stop();
    await this.#loop.stop();
    await this.#options.destination.close();
  }

  wake(): void {
    this.#loop.wake();
  }

  async offboard(tenant: Tenant): Promise<WriteOutcome> {
    const outcome = await this.#parts.offboarding.request(tenant);
    this.#loop.wake();
    return outcome;
  }

  status(): DestinationStatus {
    return feederStatus(this.#options, this.#parts);
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
    this.#parts.health.recovered();
    const { ledger } = this.#options;
    const position = this.#parts.pending.position();
    const changed = (ended: AbortSignal): Promise<void> => ledger.changed(position, ended);
    return { kind: 'wait', changed, ...omitUndefined({ ms: this.#setAside.dueIn() }) };
  }

  /** Does the next thing there is to do. */
  async #advance(signal: AbortSignal): Promise<BlockReason | 'idle' | 'suspended' | undefined> {
    const { bootstrap, provisioner, pending } = this.#parts;
    if (!this.#opened) return this.#open();
    if (this.settings.suspend) return 'suspended';
    const unready = await bootstrap.ensure(signal);
    if (unready !== undefined) return unready;
    if (this.#tenantsChanged) {
      this.#tenantsChanged = false;
      const failed = await provisioner.refresh(signal);
      if (failed !== undefined) this.#tenantsChanged = true;
      if (failed?.kind === 'hold') return failed;
    }
    if (pending.isEmpty()) {
      const outcome = await this.#readOn(signal);
      if (outcome !== undefined || pending.isEmpty()) return outcome;
    }
    const blocked = await this.#sendPending(signal);
    return (await this.#commit()) ?? blocked;
  }

  /** Finds the cursor and reads what was set aside; nothing is sent before it has. */
  async #open(): Promise<BlockReason | undefined> {
    const { ledger, clock, logger } = this.#options;
    const { records, pending, inFlight } = this.#parts;
    const start = await findStartPosition(ledger, records, this.settings, clock.now());
    if (start.kind === 'failed') return { kind: 'retry', reason: start.message };
    if (start.kind === 'hold') return start;
    const lost = lossText(start, ledger.lowWater());
    if (lost !== undefined) logger.error(`[${this.settings.name}] ${lost}`);
    pending.reset(start.sequence);
    await inFlight.load(start.state.resentUntil);
    await this.#setAside.load();
    this.#opened = true;
    return undefined;
  }

  /** Serves what was set aside, then reads the next batch. */
  async #readOn(signal: AbortSignal): Promise<BlockReason | 'idle' | undefined> {
    const { lateLane, offboarding, changeLane, pending, wants } = this.#parts;
    const { destination } = this.#options;
    const served = await this.#setAside.serve(signal);
    const billed = await lateLane.step(signal);
    const blocked =
      served.blocked ??
      (await offboarding.step(pending.position(), signal)) ??
      (await changeLane.step(pending.position(), signal));
    if (blocked !== undefined) return blocked;
    const { batchEvents, batchBytes } = destination.limits;
    const position = pending.position();
    const encodedBytes = destination.encodedBytes?.bind(destination);
    const limits = {
      events: batchEvents,
      ...omitUndefined({ bytes: batchBytes, bytesOf: encodedBytes }),
      wants,
    };
    const unread = await pending.read(limits);
    this.#failedReads = unread === undefined ? 0 : this.#failedReads + 1;
    if (unread !== undefined) return unread;
    const moved = served.moved || billed.moved || pending.position() !== position;
    return pending.isEmpty() && !moved ? 'idle' : undefined;
  }

  async #sendPending(signal: AbortSignal): Promise<BlockReason | undefined> {
    const { circuit, pending, health, log, parked, refusals, sendRound } = this.#parts;
    const tried = circuit.choose(pending.open());
    if (tried.length === 0) return undefined;
    const round = await sendRound(tried, signal);
    const results = new Map(round.results);
    const blocked = graver(round.blocked, refusals.withhold(tried, results));
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
      log.warn(result.reason, `[${this.settings.name}] dead letter: ${what}: ${result.reason}`);
    }
    this.#count(report);
    if (blocked === undefined) return undefined;
    health.retried(tried.length - results.size);
    if (blocked.kind === 'retry') circuit.failed(tried, blocked.afterMs !== undefined);
    const poison = circuit.poisonEvent(pending.open());
    if (poison !== undefined) {
      circuit.clear(poison.sequence);
      const reason = `keeps failing while others are accepted: ${blocked.reason}`;
      parked.add(poison.event.tenant, reason);
    }
    return blocked;
  }

  /** Moves the cursor over what is settled, even when the rest is blocked. */
  async #commit(): Promise<BlockReason | undefined> {
    const { pending, settlements, health } = this.#parts;
    const report = await pending.commit((passed) => settlements.recordsOf(passed));
    if (report.kind === 'committed') {
      settlements.written(report.passed);
      const unwanted = report.passed.filter(({ result }) => result.kind === 'skipped').length;
      health.skipped(unwanted);
      return undefined;
    }
    // Somebody else has moved the cursor: begin again from where it is.
    if (this.#cursor() !== pending.position()) this.#opened = false;
    return { kind: 'retry', reason: report.message };
  }

  #count({ accepted, rejected }: LaneReport): void {
    const { health, circuit, refusals } = this.#parts;
    health.accepted(accepted);
    health.rejected(rejected);
    if (accepted === 0) return;
    circuit.succeeded();
    refusals.accepted();
  }

  /** Notes what blocks and says how long to wait before the next attempt, milliseconds. */
  #waitAfter(blocked: BlockReason): number {
    const { health, bootstrap, circuit, log } = this.#parts;
    const { name } = this.settings;
    health.blocked(blocked);
    const preparing = this.#opened && !bootstrap.isReady();
    const where = preparing ? `[bootstrap] warning: ${name}:` : `[${name}]`;
    log.warn(blocked.reason, `${where} ${blocked.reason}`);
    if (blocked.kind === 'hold') {
      circuit.trip();
      return PROBE_INTERVAL_MS;
    }
    const failures = Math.max(this.#failedReads, circuit.failures(), bootstrap.failures(), 1);
    const delay = retryDelayMs(failures, this.#options.random);
    return Math.min(LONGEST_WAIT_MS, Math.max(blocked.afterMs ?? 0, delay));
  }

  #cursor(): number | undefined {
    const { name } = this.settings;
    return this.#options.ledger.cursors().find(({ destination }) => destination === name)?.sequence;
  }
}
