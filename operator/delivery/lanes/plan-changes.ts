import type {
  ChangeOutcome,
  Destination,
  DrainFirst,
  StepOutcome,
} from '../../destinations/destination.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import { least } from '../../model/extremes.ts';
import type { PlanChange, Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import type { UnsentRanges } from '../records/sequence-sets.ts';
import {
  type MadeChange,
  type PendingChange,
  type Placeable,
  type Placement,
  placementOf,
  reachOf,
  type TenantChanges,
} from '../records/tenant-changes.ts';

/** Most completed changes of a tenant on record. Usage of older changes is settled. */
const MAX_MADE = 200;

/** Reason why usage of the new plan is parked. The tenant's other usage is sent. */
export const WAITS_FOR_CHANGE = 'waits for the change of its plan';

/** Status of a pending change of plan. Times are milliseconds since the epoch. */
export interface PlanChangeStatus {
  readonly tenant: string;
  readonly from: string;
  readonly to: string;
  /** Usage whose window starts at this moment or later belongs to the new plan. */
  readonly at: number;
  readonly since: number;
  /** Why the last attempt failed. */
  readonly problem?: string;
}

export type PlaceReport =
  | { readonly kind: 'placed'; readonly placements: ReadonlyMap<number, Placement> }
  | { readonly kind: 'failed'; readonly reason: string };

const DONE: StepOutcome = { kind: 'done' };
const WRITTEN: WriteOutcome = { kind: 'written' };

/**
 * The changes of plan at a destination (docs/explanation/delivery.md#changes-of-plan). Decides
 * which plan each event belongs to. A ledger record of each decision is written before it takes
 * effect.
 */
export class PlanChanges {
  readonly #options;
  readonly #changes = new Map<string, TenantChanges>();
  readonly #problems = new Map<string, string>();

  constructor(options: {
    readonly destination: Pick<Destination, 'plans'>;
    /** The `planChange` of the destination's settings. */
    readonly planChange: PlanChange;
    readonly ledger: Ledger;
    readonly records: DeliveryRecords;
    readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
    readonly clock: Clock;
    /** Returns whether the tenant is being offboarded. Its plan does not change any more. */
    readonly isLeaving: (tenant: string) => boolean;
  }) {
    this.#options = options;
  }

  async load(): Promise<void> {
    for await (const changes of this.#options.records.changes()) {
      this.#changes.set(changes.tenant, changes);
    }
  }

  /** Requests a change for provisioning. Keeps the moment of a change that is requested already. */
  async request(tenant: Tenant, drain: DrainFirst, signal: AbortSignal): Promise<StepOutcome> {
    const { clock, planChange, isLeaving } = this.#options;
    const { current, wanted } = drain;
    const known = this.pendingOf(tenant.id);
    if (known?.drainedTo !== undefined || isLeaving(tenant.id)) return DONE;
    const mode = tenant.planChange ?? planChange;
    const same = known?.mode === mode;
    if (same && known.current === current && known.wanted === wanted) return DONE;
    const before = same ? known.before : await this.#momentOf(tenant, mode, drain, signal);
    if (typeof before !== 'number') return before;
    const requestedAt = known?.requestedAt ?? clock.now();
    const wish = wishOf(tenant);
    const pending: PendingChange = { before, requestedAt, mode, current, wanted, wish };
    return stepOf(await this.#write({ ...this.#of(tenant.id), pending }));
  }

  /**
   * Notes that the tenant is on its wanted plan:
   *
   * 1. It wants another plan than at the request: the change is dropped.
   * 2. Somebody else made the change: it is still carried out, to learn when the new plan starts.
   */
  async settled(tenant: Tenant): Promise<StepOutcome> {
    const isSame = this.pendingOf(tenant.id)?.wish === wishOf(tenant);
    return isSame ? DONE : this.withdraw(tenant.id);
  }

  /** Drops a change that is not under way. */
  async withdraw(tenant: string): Promise<StepOutcome> {
    return this.isUnderWay(tenant) ? DONE : this.forget(tenant);
  }

  /** Drops a change, under way or not, for example after the tenant was offboarded. */
  async forget(tenant: string): Promise<StepOutcome> {
    if (this.pendingOf(tenant) === undefined) return DONE;
    const { made } = this.#of(tenant);
    return stepOf(await this.#write({ tenant, made }));
  }

  /** Records that the old plan has its usage up to a sequence number, except for `late`. */
  async begin(tenant: string, drainedTo: number, late: UnsentRanges): Promise<WriteOutcome> {
    const pending = this.pendingOf(tenant);
    if (pending === undefined) return WRITTEN;
    const begun = { ...pending, drainedTo, ...(late.length > 0 && { late }) };
    return this.#write({ ...this.#of(tenant), pending: begun });
  }

  /** Records a completed change. */
  async made(
    tenant: string,
    { from, lateUntil }: Extract<ChangeOutcome, { readonly kind: 'changed' }>,
  ): Promise<WriteOutcome> {
    const pending = this.pendingOf(tenant);
    if (pending?.drainedTo === undefined) return WRITTEN;
    const { before, drainedTo, late } = pending;
    const change: MadeChange = { before, from, drainedTo, late, lateUntil };
    const made = [...this.#of(tenant).made, change].slice(-MAX_MADE);
    return this.#write({ tenant, made });
  }

  /** Notes why an attempt failed, for the status. Undefined clears the reason. */
  refused(tenant: string, reason: string | undefined): void {
    if (reason === undefined) this.#problems.delete(tenant);
    else this.#problems.set(tenant, reason);
  }

  pendingOf(tenant: string): PendingChange | undefined {
    return this.#changes.get(tenant)?.pending;
  }

  /** Returns whether the change may have been made already. */
  isUnderWay(tenant: string): boolean {
    return this.pendingOf(tenant)?.drainedTo !== undefined;
  }

  /** Returns the tenants with a pending change. */
  tenants(): readonly string[] {
    return [...this.#changes.values()].flatMap(({ tenant, pending }) =>
      pending === undefined ? [] : [tenant],
    );
  }

  /** Decides if events are sent or wait, by sequence number. Writes the decisions first. */
  async place(queued: readonly QueuedEvent[]): Promise<PlaceReport> {
    const placements = new Map<number, Placement>();
    const noted = new Map<string, TenantChanges>();
    for (const one of queued) {
      const { tenant } = one.event;
      const changes = noted.get(tenant) ?? this.#changes.get(tenant);
      if (changes === undefined) continue;
      const placement = this.#place(changes, placeableOf(one), true);
      placements.set(one.sequence, placement);
      if (placement.noted !== undefined) noted.set(tenant, placement.noted);
    }
    for (const changes of noted.values()) {
      const outcome = await this.#write(changes);
      if (outcome.kind === 'failed') return { kind: 'failed', reason: outcome.message };
    }
    return { kind: 'placed', placements };
  }

  /** Returns whether an event waits until a change is made. */
  waits(queued: QueuedEvent): boolean {
    const changes = this.#changes.get(queued.event.tenant);
    return changes !== undefined && this.#place(changes, placeableOf(queued), true).kind === 'wait';
  }

  /** Returns the moment as of which an event is sent. Its window start while that is undecided. */
  sentAt(queued: QueuedEvent): number {
    return this.sentAtOf(queued.event.tenant, placeableOf(queued));
  }

  /** As {@link PlanChanges.sentAt}, for the position and window start of an event. */
  sentAtOf(tenant: string, placeable: Placeable): number {
    const changes = this.#changes.get(tenant);
    if (changes === undefined) return placeable.start;
    const placement = this.#place(changes, placeable, false);
    return placement.kind === 'send' ? placement.at : placeable.start;
  }

  /** Returns the earliest window start of any event that is sent as of `time` or later. */
  reach(time: number, tenant?: string): number {
    if (tenant === undefined) {
      return least([time, ...[...this.#changes.values()].map((each) => reachOf(each, time))]);
    }
    const changes = this.#changes.get(tenant);
    return changes === undefined ? time : reachOf(changes, time);
  }

  list(): readonly PlanChangeStatus[] {
    return [...this.#changes.values()].flatMap(({ tenant, pending }) => {
      if (pending === undefined) return [];
      const { before: at, requestedAt: since, current: from, wanted: to } = pending;
      const problem = this.#problems.get(tenant);
      return [{ tenant, from, to, at, since, problem }];
    });
  }

  #place(changes: TenantChanges, one: Placeable, isSending: boolean): Placement {
    const { deadLetters, clock } = this.#options;
    const wasSetAside = deadLetters.has(one.sequence);
    return placementOf(changes, one, { wasSetAside, isSending, now: clock.now() });
  }

  /** Returns the moment from which usage belongs to the new plan. */
  async #momentOf(
    tenant: Tenant,
    mode: PlanChange,
    { before }: DrainFirst,
    signal: AbortSignal,
  ): Promise<number | StepOutcome> {
    const { destination, clock } = this.#options;
    if (mode === 'now' || destination.plans === undefined) return before;
    const end = await destination.plans.periodEnd(tenant, clock.now(), signal);
    return end.kind === 'period-end' ? Math.max(before, end.at) : end;
  }

  #of(tenant: string): TenantChanges {
    return this.#changes.get(tenant) ?? { tenant, made: [] };
  }

  async #write(changes: TenantChanges): Promise<WriteOutcome> {
    const { ledger, records } = this.#options;
    const isEmpty = changes.pending === undefined && changes.made.length === 0;
    const change = isEmpty ? records.dropChanges(changes.tenant) : records.putChanges(changes);
    const outcome = await ledger.writeRecords([change]);
    if (outcome.kind === 'failed') return outcome;
    if (isEmpty) this.#changes.delete(changes.tenant);
    else this.#changes.set(changes.tenant, changes);
    if (changes.pending === undefined) this.#problems.delete(changes.tenant);
    return outcome;
  }
}

function wishOf({ plan, currency }: Tenant): string {
  return JSON.stringify([plan, currency]);
}

function placeableOf({ sequence, event }: QueuedEvent): Placeable {
  return { sequence, start: Date.parse(event.window_start) };
}

function stepOf(outcome: WriteOutcome): StepOutcome {
  return outcome.kind === 'written' ? DONE : { kind: 'retry', reason: outcome.message };
}
