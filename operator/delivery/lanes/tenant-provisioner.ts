import pLimit from 'p-limit';
import type { Destination, ProvisionOutcome, StepOutcome } from '../../destinations/destination.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/quote.ts';
import type { PlanChange, Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type BlockReason, graver } from '../delivery-result.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import { type PlanChanges, WAITS_FOR_CHANGE } from './plan-changes.ts';
import { type TenantDirectory, tenantFingerprint } from './tenant-directory.ts';

const CONCURRENCY = 8;
/** Failures of one tenant in a row, while others succeed, before its events are parked. */
const MAX_FAILURES = 5;
/** Number of refusals of a provisioned tenant as unknown that parks it. */
const MAX_REFUSALS = 3;
/** Number of failed tenants, without a success, after which the others of a batch are not tried. */
const DOWN_AFTER = 3;

/** `refusals`: how often the destination refused the tenant as unknown since an accepted event. */
type TenantState =
  | { readonly kind: 'ready'; readonly fingerprint: string; readonly refusals: number }
  | { readonly kind: 'failing'; readonly failures: number; readonly since: number };

/** The decision whether a tenant's events may be sent now. */
export type Admission =
  | { readonly kind: 'ready' }
  | { readonly kind: 'parked'; readonly reason: string }
  | { readonly kind: 'waiting' };

interface AdmitOutcome {
  readonly admission: Admission;
  readonly blocked?: BlockReason;
}

const DONE: StepOutcome = { kind: 'done' };
const WAITING: Admission = { kind: 'waiting' };
const READY: AdmitOutcome = { admission: { kind: 'ready' } };

/**
 * Provisions tenants before their first event and after each change. Parks a tenant that cannot be
 * provisioned, so that other tenants go on (docs/explanation/delivery.md#tenants).
 */
export class TenantProvisioner {
  readonly #options;
  readonly #states = new Map<string, TenantState>();
  #lastSuccess = Number.NEGATIVE_INFINITY;

  constructor(options: {
    readonly destination: Destination;
    readonly ledger: Ledger;
    readonly directory: TenantDirectory;
    readonly parked: ParkedTenants;
    readonly changes: PlanChanges;
    /** The `planChange` of the destination's settings. */
    readonly planChange: PlanChange;
    readonly clock: Clock;
    /** Returns whether the destination answers. Called if the cause of a failure is unclear. */
    readonly probe: (signal: AbortSignal) => Promise<boolean>;
  }) {
    this.#options = options;
  }

  /** Provisions tenants that need it. `firstEvents`: each tenant's earliest event to send. */
  async admit(
    firstEvents: ReadonlyMap<string, UsageEvent>,
    signal: AbortSignal,
  ): Promise<{
    readonly admissions: ReadonlyMap<string, Admission>;
    readonly blocked?: BlockReason;
  }> {
    const { directory } = this.#options;
    const admissions = new Map<string, Admission>();
    const changes: RecordChange[] = [];
    let blocked: BlockReason | undefined;
    let failures = 0;
    let successes = 0;
    await pLimit(CONCURRENCY).map(firstEvents, async ([id, event]) => {
      const reason = this.#parkedReason(id);
      admissions.set(id, reason === undefined ? WAITING : { kind: 'parked', reason });
      // If no tenant can be provisioned the destination is down, so the others are not tried.
      const down = failures >= DOWN_AFTER && successes === 0;
      if (reason !== undefined || blocked?.kind === 'blocked' || down) return;
      const outcome = await this.#admitOne(await directory.ofEvent(event), changes, signal);
      admissions.set(id, outcome.admission);
      blocked = graver(blocked, outcome.blocked);
      if (outcome.blocked === undefined) successes += 1;
      else failures += 1;
    });
    await this.#remember(changes);
    return { admissions, blocked };
  }

  /** Provisions changed tenants again, with or without events. */
  async refresh(signal: AbortSignal): Promise<BlockReason | undefined> {
    const { directory, parked } = this.#options;
    parked.hurryChanged((id) => {
      const tenant = directory.current(id);
      return tenant && tenantFingerprint(tenant);
    });
    const changes: RecordChange[] = [];
    let blocked: BlockReason | undefined;
    for (const id of this.#states.keys()) {
      const tenant = directory.current(id);
      if (tenant === undefined || this.#parkedReason(id) !== undefined) continue;
      blocked = (await this.#admitOne(tenant, changes, signal)).blocked;
      if (blocked !== undefined) break;
    }
    await this.#remember(changes);
    return blocked;
  }

  /** Provisions a parked tenant. It stays parked. */
  async retry(event: UsageEvent, signal: AbortSignal): Promise<StepOutcome> {
    return this.#provisionAlone(await this.#options.directory.ofEvent(event), signal);
  }

  /** Provisions a tenant unless it is provisioned in its current form, with or without events. */
  async review(id: string, signal: AbortSignal): Promise<StepOutcome> {
    const tenant = await this.#options.directory.asServed(id);
    return this.#isSure(tenant) ? DONE : this.#provisionAlone(tenant, signal);
  }

  /** Provisions the tenant again before the next attempt: the destination's state changed. */
  recheck(tenant: string): void {
    const state = this.#states.get(tenant);
    if (state?.kind === 'ready') this.#states.set(tenant, { ...state, fingerprint: '' });
  }

  accepted(tenant: string): void {
    this.#lastSuccess = this.#options.clock.monotonic();
    const state = this.#states.get(tenant);
    if (state?.kind !== 'ready' || state.refusals === 0) return;
    this.#states.set(tenant, { ...state, refusals: 0 });
  }

  /** Notes that the destination refused the tenant as unknown. */
  refused(tenant: string, reason: string): void {
    const state = this.#states.get(tenant);
    const refusals = (state?.kind === 'ready' ? state.refusals : 0) + 1;
    // Without a fingerprint it is provisioned again before the next attempt.
    this.#states.set(tenant, { kind: 'ready', fingerprint: '', refusals });
    if (refusals >= MAX_REFUSALS) this.#options.parked.add(tenant, reason);
  }

  forget(tenant: string): void {
    this.#states.delete(tenant);
    this.#options.directory.forget(tenant);
  }

  /** `changes` collects the records to write. */
  async #admitOne(
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<AdmitOutcome> {
    if (this.#isSure(tenant)) return READY;
    const outcome = await this.#provision(tenant, changes, signal);
    if (outcome.kind === 'done') return READY;
    if (outcome.kind === 'blocked') return { admission: WAITING, blocked: outcome };
    if (outcome.kind === 'rejected') return this.#park(tenant, outcome.reason);
    const { failures, since } = this.#countFailure(tenant.id);
    const alone =
      failures >= MAX_FAILURES &&
      (this.#lastSuccess > since || (await this.#options.probe(signal)));
    return alone ? this.#park(tenant, outcome.reason) : { admission: WAITING, blocked: outcome };
  }

  async #provision(
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<StepOutcome> {
    const { directory, clock, changes: planChanges } = this.#options;
    // While a change of plan is under way it is unknown which plan to compare with.
    if (planChanges.isUnderWay(tenant.id)) return DONE;
    const outcome = await this.#attempt(tenant, signal);
    if (outcome.kind !== 'done') return outcome;
    this.#lastSuccess = clock.monotonic();
    const state = this.#states.get(tenant.id);
    const refusals = state?.kind === 'ready' ? state.refusals : 0;
    const fingerprint = tenantFingerprint(tenant);
    this.#states.set(tenant.id, { kind: 'ready', fingerprint, refusals });
    changes.push(directory.provisioned(tenant));
    return outcome;
  }

  /** Provisions a tenant, and requests a change of plan if the destination needs one. */
  async #attempt(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { destination, changes, planChange } = this.#options;
    const wished = planChange === 'now' ? tenant : { planChange, ...tenant };
    const outcome = await attempt(destination, wished, signal);
    if (outcome.kind === 'done') return changes.settled(tenant);
    return outcome.kind === 'drain' ? changes.request(tenant, outcome, signal) : outcome;
  }

  async #provisionAlone(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const changes: RecordChange[] = [];
    const outcome = await this.#provision(tenant, changes, signal);
    await this.#remember(changes);
    return outcome;
  }

  #isSure(tenant: Tenant): boolean {
    const state = this.#states.get(tenant.id);
    return state?.kind === 'ready' && state.fingerprint === tenantFingerprint(tenant);
  }

  /** Returns why all events wait. During a change of plan, usage of the old plan is sent. */
  #parkedReason(id: string): string | undefined {
    const { parked, changes } = this.#options;
    const reason = parked.reasonOf(id);
    const isChanging = reason === WAITS_FOR_CHANGE && changes.pendingOf(id) !== undefined;
    return isChanging ? undefined : reason;
  }

  #park(tenant: Tenant, reason: string): AdmitOutcome {
    this.#options.parked.add(tenant.id, reason, tenantFingerprint(tenant));
    return { admission: { kind: 'parked', reason } };
  }

  #countFailure(tenant: string): Extract<TenantState, { readonly kind: 'failing' }> {
    const state = this.#states.get(tenant);
    const before =
      state?.kind === 'failing' ? state : { failures: 0, since: this.#options.clock.monotonic() };
    const { failures, since } = before;
    const next = { kind: 'failing', failures: failures + 1, since } as const;
    this.#states.set(tenant, next);
    return next;
  }

  /** Writes records. If the write fails, the tenant is only provisioned again later. */
  async #remember(changes: readonly RecordChange[]): Promise<void> {
    if (changes.length > 0) await this.#options.ledger.writeRecords(changes);
  }
}

/** Provisions a tenant once. If the destination throws, the outcome is `retry`. */
async function attempt(
  destination: Destination,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<ProvisionOutcome> {
  const shared = tenant.sharedCustomerIds?.[destination.type];
  if (shared !== undefined) {
    const fix = 'name it for one tenant only';
    return {
      kind: 'rejected',
      reason: `customer id of several tenants: ${quote(shared)}; ${fix}`,
    };
  }
  try {
    return (await destination.customers?.provision(tenant, signal)) ?? DONE;
  } catch (error) {
    return { kind: 'retry', reason: `provisioning failed: ${errorText(error)}` };
  }
}
