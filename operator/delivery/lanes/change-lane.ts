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

/** Interval between checks of a change that waits for usage. */
const CHECK_EVERY_MS = 15_000;
/** Longest wait between checks. The wall clock may be set, and timers do not span months. */
const LONGEST_WAIT_MS = 3_600_000;
/** Wait after the moment of a change until its window is in the ledger. */
const SETTLING_MS = 60_000;

/**
 * Makes changes of plan. Each waits until the old plan has all of its usage and the destination
 * confirms it (docs/explanation/delivery.md#changes-of-plan). Only the tenant's own usage waits for
 * a change.
 */
export class ChangeLane {
  readonly #options;
  readonly #arrived: ArrivalCheck;
  /** Events that were set aside before a long stop are retried from this moment on. */
  readonly #startedAt: number;
  /** The next check of each tenant's change: monotonic milliseconds, and refusals in a row. */
  readonly #nextChecks = new Map<
    string,
    {
      readonly at: number;
      readonly failures: number;
      /** The `before` of the change to check. */
      readonly before: number | undefined;
    }
  >();
  /** The ledger's head at which all measured usage of the old plan was in the ledger. */
  readonly #marks = new Map<string, { readonly before: number; readonly sequence: number }>();

  constructor(options: {
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
    /** Called after news about a change. */
    readonly onNews: () => void;
    /** Called before a change of plan whose sums still differ after half an hour. */
    readonly onGivenUp: (tenant: string) => void;
    readonly onDone: (tenant: string, change: PendingChange, from: number) => void;
    readonly onRefused: (tenant: string, reason: string) => void;
  }) {
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

  /** Advances changes that are due. `cursor` is the destination's cursor. */
  async step(cursor: number, signal: AbortSignal): Promise<BlockReason | undefined> {
    const { changes, clock, leaving } = this.#options;
    for (const tenant of changes.tenants()) {
      if (leaving.has(tenant)) await changes.withdraw(tenant);
      else if (this.#nextCheckOf(tenant) > clock.monotonic()) continue;
      const blocked = await this.#advance(tenant, cursor, signal);
      if (blocked !== undefined) return blocked;
      if (changes.pendingOf(tenant) === undefined) this.#forget(tenant);
    }
    return undefined;
  }

  /** Checks a tenant's change in the next step. */
  wake(tenant: string): void {
    this.#nextChecks.delete(tenant);
  }

  /** Milliseconds until the next check; undefined without changes. */
  dueIn(): number | undefined {
    const { changes, clock } = this.#options;
    const times = changes.tenants().map((tenant) => this.#nextCheckOf(tenant));
    return times.length === 0 ? undefined : Math.max(0, least(times) - clock.monotonic());
  }

  /** Aborts background queries. */
  stop(): void {
    this.#arrived.stop();
  }

  /** Returns when a change is checked next, monotonic milliseconds. A new one is due at once. */
  #nextCheckOf(tenant: string): number {
    const next = this.#nextChecks.get(tenant);
    return next?.before === this.#options.changes.pendingOf(tenant)?.before ? (next?.at ?? 0) : 0;
  }

  /** Takes one step for one tenant. Returns a reason that blocks the entire destination. */
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
      if (step.kind === 'blocked') return step;
      if (step.kind !== 'done') return this.#refuse(tenant, step);
      const pending = changes.pendingOf(tenant);
      if (pending === undefined || !(await this.#isDrained(tenant, pending, cursor)))
        return undefined;
      if (!this.#mayChange(tenant) || !(await this.#begin(tenant, cursor))) return undefined;
    }
    return this.#mayChange(tenant) ? this.#change(tenant, isFirst, signal) : undefined;
  }

  /** Returns false while the billing system makes invoices, and plans the next check. */
  #mayChange(tenant: string): boolean {
    const { destination, clock } = this.#options;
    const now = clock.now();
    const quiet = destination.plans?.quietUntil?.(now) ?? now;
    return quiet <= now || this.#checkAgain(tenant, Math.min(quiet - now, LONGEST_WAIT_MS));
  }

  /** Returns whether the old plan has all of its usage and has added it up. */
  async #isDrained(tenant: string, pending: PendingChange, cursor: number): Promise<boolean> {
    const { ledger, clock, usageToCome } = this.#options;
    const { before, requestedAt } = pending;
    const early = before + SETTLING_MS - clock.now();
    if (early > 0) return this.#checkAgain(tenant, Math.min(early, LONGEST_WAIT_MS));
    const since = Math.max(before, requestedAt, this.#startedAt);
    let mark = this.#marks.get(tenant);
    if (mark?.before !== before) {
      const { lastWindowEnd = before } = ledger.stats();
      // An open window may still add usage. The wait ends after MAX_BACKFILL if no window closes.
      const nothing = { tenant, sequence: 0, since };
      const isOpen = lastWindowEnd < before && (await usageToCome(nothing, 0, () => true));
      if (isOpen) return this.#checkAgain(tenant, CHECK_EVERY_MS);
      mark = { before, sequence: ledger.head() };
      this.#marks.set(tenant, mark);
    }
    const ending = { tenant, sequence: mark.sequence, since };
    const left = await this.#setAside(tenant, mark.sequence);
    if (await usageToCome(ending, cursor, () => left.length > 0)) {
      return this.#checkAgain(tenant, CHECK_EVERY_MS);
    }
    return this.#arrived.has(tenant, before) || this.#checkAgain(tenant, CHECK_EVERY_MS);
  }

  /** Records what the old plan has. From then on the change may be made. */
  async #begin(tenant: string, cursor: number): Promise<boolean> {
    const left = await this.#setAside(tenant, cursor);
    const outcome = await this.#options.changes.begin(tenant, cursor, left);
    return outcome.kind === 'written' || this.#checkAgain(tenant, CHECK_EVERY_MS);
  }

  /** Returns parked events up to a sequence number that do not wait for the change. */
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
    if (outcome.kind === 'blocked') return outcome;
    if (outcome.kind !== 'changed') return this.#refuse(tenant, outcome);
    // If an earlier attempt ended the old plan, `lateUntil` of this answer belongs to another plan.
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
    const failures = (this.#nextChecks.get(tenant)?.failures ?? 0) + 1;
    const afterMs = step.kind === 'retry' ? (step.afterMs ?? 0) : 0;
    const wait = Math.max(afterMs, retryDelayMs(failures, random));
    const before = changes.pendingOf(tenant)?.before;
    this.#nextChecks.set(tenant, { at: clock.monotonic() + wait, failures, before });
    changes.refused(tenant, step.reason);
    onRefused(tenant, step.reason);
    return undefined;
  }

  #checkAgain(tenant: string, ms: number): false {
    const { clock, changes } = this.#options;
    const before = changes.pendingOf(tenant)?.before;
    this.#nextChecks.set(tenant, { at: clock.monotonic() + ms, failures: 0, before });
    return false;
  }

  #forget(tenant: string): void {
    this.#nextChecks.delete(tenant);
    this.#marks.delete(tenant);
    this.#arrived.forget(tenant);
    this.#options.parked.hurry(tenant);
  }
}
