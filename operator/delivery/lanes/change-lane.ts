import type { ChangeOutcome, Destination } from '../../destinations/destination.ts';
import type { FailedStep } from '../../destinations/failed-step.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import { least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type BlockReason, retryDelayMs } from '../delivery-result.ts';
import { querySums } from '../feeder/query-sums.ts';
import type { Reconcile } from '../operations/reconcile.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { addUnsent, type UnsentRanges } from '../records/sequence-sets.ts';
import type { PendingChange } from '../records/tenant-changes.ts';
import { ArrivalCheck } from './arrival-check.ts';
import type { OffboardRequests } from './offboarding.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { PlanChanges } from './plan-changes.ts';
import type { TenantDirectory } from './tenant-directory.ts';
import type { TenantProvisioner } from './tenant-provisioner.ts';
import type { UsageToCome } from './usage-to-come.ts';

/** How often a change whose usage is still to come is looked at. */
const CHECK_EVERY_MS = 15_000;
/** The wall clock may be set meanwhile, and timers do not reach for months. */
const LONGEST_WAIT_MS = 3_600_000;
/** What is asked for at the end of a window is in the ledger by then. */
const SETTLING_MS = 60_000;

interface ChangeLaneOptions {
  readonly destination: Pick<Destination, 'plans' | 'sums'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly changes: PlanChanges;
  readonly provisioner: Pick<TenantProvisioner, 'review' | 'recheck'>;
  readonly directory: Pick<TenantDirectory, 'asServed'>;
  readonly parked: Pick<ParkedTenants, 'hurry'>;
  readonly usageToCome: UsageToCome;
  readonly reconcile: Reconcile;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly leaving: Pick<OffboardRequests, 'has'>;
  /** There is something to do. */
  readonly onNews: () => void;
  /** The sums of a tenant still differ after half an hour: its plan is changed all the same. */
  readonly onGivenUp: (tenant: string) => void;
  readonly onDone: (tenant: string, change: PendingChange, from: number) => void;
  readonly onRefused: (tenant: string, reason: string) => void;
}

/**
 * Makes changes of plan, each once the old plan has all usage of its side and the destination confirms it
 * (docs/explanation/delivery.md#changes-of-plan). Only the tenant's own usage ever waits for it.
 */
export class ChangeLane {
  readonly #options: ChangeLaneOptions;
  readonly #arrived: ArrivalCheck;
  /** What was set aside before a long stop is tried again from then on. */
  readonly #startedAt: number;
  /** When a tenant's change is looked at next, by the monotonic clock, and how often it was refused in a row. */
  readonly #slices = new Map<
    string,
    {
      readonly at: number;
      readonly failures: number;
      /** The moment of the change that it is a turn of. */
      readonly before: number | undefined;
    }
  >();
  /** The head by which everything measured of the old side was in the ledger. */
  readonly #marks = new Map<string, { readonly before: number; readonly sequence: number }>();

  constructor(options: ChangeLaneOptions) {
    this.#options = options;
    const { destination, reconcile, clock, onNews, onGivenUp } = options;
    this.#startedAt = clock.now();
    this.#arrived = new ArrivalCheck({
      clock,
      query: destination.sums && querySums(reconcile),
      onAnswer: (tenant) => {
        this.wake(tenant);
        onNews();
      },
      onGivenUp,
    });
  }

  /** Goes on with changes whose time has come; `cursor` is where the destination stands. */
  async step(cursor: number, signal: AbortSignal): Promise<BlockReason | undefined> {
    const { changes, clock, leaving } = this.#options;
    for (const tenant of changes.tenants()) {
      if (leaving.has(tenant)) await changes.withdraw(tenant);
      else if (this.#sliceOf(tenant) > clock.monotonic()) continue;
      const blocked = await this.#advance(tenant, cursor, signal);
      if (blocked !== undefined) return blocked;
      if (changes.pendingOf(tenant) === undefined) this.#forget(tenant);
    }
    return undefined;
  }

  /** There is news of a tenant's change. */
  wake(tenant: string): void {
    this.#slices.delete(tenant);
  }

  /** Milliseconds until the next look; undefined when there is no change to make. */
  dueIn(): number | undefined {
    const { changes, clock } = this.#options;
    const slices = changes.tenants().map((tenant) => this.#sliceOf(tenant));
    return slices.length === 0 ? undefined : Math.max(0, least(slices) - clock.monotonic());
  }

  /** Cuts what is asked in the background. */
  stop(): void {
    this.#arrived.stop();
  }

  /** A change that is asked for again has its turn at once. */
  #sliceOf(tenant: string): number {
    const slice = this.#slices.get(tenant);
    return slice?.before === this.#options.changes.pendingOf(tenant)?.before ? (slice?.at ?? 0) : 0;
  }

  /** One step of one tenant; what concerns the whole destination is returned. */
  async #advance(
    tenant: string,
    cursor: number,
    signal: AbortSignal,
  ): Promise<BlockReason | undefined> {
    const { changes, provisioner } = this.#options;
    if (changes.pendingOf(tenant) === undefined) return undefined;
    const isFirst = !changes.isUnderWay(tenant);
    if (isFirst) {
      const step = await provisioner.review(tenant, signal);
      if (step.kind === 'hold') return step;
      if (step.kind !== 'done') return this.#refuse(tenant, step);
      const pending = changes.pendingOf(tenant);
      if (pending === undefined || !(await this.#isDrained(tenant, pending, cursor)))
        return undefined;
      if (!this.#mayChange(tenant) || !(await this.#begin(tenant, cursor))) return undefined;
    }
    return this.#mayChange(tenant) ? this.#change(tenant, isFirst, signal) : undefined;
  }

  /** Whether the billing system is not making invoices. */
  #mayChange(tenant: string): boolean {
    const { destination, clock } = this.#options;
    const now = clock.now();
    const quiet = destination.plans?.quietUntil?.(now) ?? now;
    return quiet <= now || this.#pollAgain(tenant, Math.min(quiet - now, LONGEST_WAIT_MS));
  }

  /** Whether the old plan has all usage of its side, and has added it up. */
  async #isDrained(tenant: string, pending: PendingChange, cursor: number): Promise<boolean> {
    const { ledger, clock, usageToCome } = this.#options;
    const { before, askedAt: requestedAt } = pending;
    const early = before + SETTLING_MS - clock.now();
    if (early > 0) return this.#pollAgain(tenant, Math.min(early, LONGEST_WAIT_MS));
    const since = Math.max(before, requestedAt, this.#startedAt);
    let mark = this.#marks.get(tenant);
    if (mark?.before !== before) {
      const { lastWindowEnd = before } = ledger.stats();
      // A window that is not closed yet may still bring usage; where none closes, it is not waited for.
      const nothing = { tenant, sequence: 0, since };
      const isOpen = lastWindowEnd < before && (await usageToCome(nothing, 0, () => true));
      if (isOpen) return this.#pollAgain(tenant, CHECK_EVERY_MS);
      mark = { before, sequence: ledger.head() };
      this.#marks.set(tenant, mark);
    }
    const ending = { tenant, sequence: mark.sequence, since };
    const left = await this.#setAside(tenant, mark.sequence);
    if (await usageToCome(ending, cursor, () => left.length > 0)) {
      return this.#pollAgain(tenant, CHECK_EVERY_MS);
    }
    return this.#arrived.has(tenant, before) || this.#pollAgain(tenant, CHECK_EVERY_MS);
  }

  /** Puts on record what the old plan has: from then on the change may have been made. */
  async #begin(tenant: string, cursor: number): Promise<boolean> {
    const left = await this.#setAside(tenant, cursor);
    const outcome = await this.#options.changes.begin(tenant, cursor, left);
    return outcome.kind === 'written' || this.#pollAgain(tenant, CHECK_EVERY_MS);
  }

  /** Events up to a sequence number that are kept for another reason than the change. */
  async #setAside(tenant: string, sequence: number): Promise<UnsentRanges> {
    const { records, changes } = this.#options;
    let left: UnsentRanges = [];
    for await (const stored of records.parkedOf(tenant)) {
      if (stored.sequence > sequence) break;
      if (changes.waits(stored)) continue;
      left = addUnsent(left, stored.sequence, stored.sequence);
    }
    return left;
  }

  async #change(
    tenant: string,
    isFirst: boolean,
    signal: AbortSignal,
  ): Promise<BlockReason | undefined> {
    const { changes, provisioner, parked, onDone } = this.#options;
    const pending = changes.pendingOf(tenant);
    if (pending === undefined) return undefined;
    const outcome = await this.#attempt(tenant, pending.before, signal);
    if (outcome.kind === 'hold') return outcome;
    if (outcome.kind !== 'changed') return this.#refuse(tenant, outcome);
    // An attempt before may have ended the old plan already: then this answer's grace is another plan's.
    const { kind, from } = outcome;
    const written = await changes.made(tenant, isFirst ? outcome : { kind, from });
    if (written.kind === 'failed') return { kind: 'retry', reason: written.message };
    provisioner.recheck(tenant);
    parked.hurry(tenant);
    onDone(tenant, pending, outcome.from);
    return undefined;
  }

  async #attempt(tenant: string, before: number, signal: AbortSignal): Promise<ChangeOutcome> {
    const { destination, directory } = this.#options;
    if (destination.plans === undefined) {
      return { kind: 'rejected', reason: 'the destination cannot change plans' };
    }
    try {
      return await destination.plans.change(await directory.asServed(tenant), before, signal);
    } catch (error) {
      return { kind: 'retry', reason: `change of plan failed: ${errorText(error)}` };
    }
  }

  #refuse(tenant: string, step: FailedStep): undefined {
    const { clock, random, changes, onRefused } = this.#options;
    const failures = (this.#slices.get(tenant)?.failures ?? 0) + 1;
    const afterMs = step.kind === 'retry' ? (step.afterMs ?? 0) : 0;
    const wait = Math.max(afterMs, retryDelayMs(failures, random));
    const before = changes.pendingOf(tenant)?.before;
    this.#slices.set(tenant, { at: clock.monotonic() + wait, failures, before });
    changes.refused(tenant, step.reason);
    onRefused(tenant, step.reason);
    return undefined;
  }

  #pollAgain(tenant: string, ms: number): false {
    const { clock, changes } = this.#options;
    const before = changes.pendingOf(tenant)?.before;
    this.#slices.set(tenant, { at: clock.monotonic() + ms, failures: 0, before });
    return false;
  }

  #forget(tenant: string): void {
    this.#slices.delete(tenant);
    this.#marks.delete(tenant);
    this.#arrived.forget(tenant);
    this.#options.parked.hurry(tenant);
  }
}
