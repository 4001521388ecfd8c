import pLimit from 'p-limit';
import type { Destination, StepOutcome } from '../../destinations/destination.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { quote } from '../../model/quote.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type BlockReason, graver } from '../delivery-result.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import { type TenantDirectory, tenantFingerprint } from './tenant-directory.ts';

const CONCURRENCY = 8;
/** Failures of one tenant in a row, while others succeed, before its events are parked. */
const MAX_FAILURES = 5;
/** How often the other side may say that it does not know a tenant that was just provisioned. */
const MAX_REFUSALS = 3;
/** Tenants that fail, none succeeding, before the rest of a batch is not tried. */
const DOWN_AFTER = 3;

/** `refusals` counts how often the other side said, since an event was accepted, that it does not know the tenant. */
type TenantState =
  | { readonly kind: 'ready'; readonly fingerprint: string; readonly refusals: number }
  | { readonly kind: 'failing'; readonly failures: number; readonly since: number };

/** Whether a tenant's events may be sent now. */
export type Admission =
  | { readonly kind: 'ready' }
  | { readonly kind: 'parked'; readonly reason: string }
  | { readonly kind: 'waiting' };

export interface AdmissionReport {
  readonly admissions: ReadonlyMap<string, Admission>;
  readonly blocked?: BlockReason;
}

/**
 * Provisions a tenant before its first event and whenever it changes, and has the events of one that
 * cannot be provisioned set aside, out of the way of all others (docs/delivery.md#tenants).
 */
export interface TenantProvisioner {
  /** Provisions what needs it. `firstEvents` has the earliest event to send of each tenant. */
  admit(
    firstEvents: ReadonlyMap<string, UsageEvent>,
    signal: AbortSignal,
  ): Promise<AdmissionReport>;
  /** Provisions again what has changed since, whether or not it has events. */
  refresh(signal: AbortSignal): Promise<BlockReason | undefined>;
  /** Provisions a parked tenant; it stays parked. */
  retry(event: UsageEvent, signal: AbortSignal): Promise<StepOutcome>;
  /** One event of the tenant was accepted. */
  accepted(tenant: string): void;
  /** The other side says that it does not know the tenant. */
  refused(tenant: string, reason: string): void;
  /** The tenant was offboarded. */
  forget(tenant: string): void;
}

export interface TenantProvisionerOptions {
  readonly destination: Destination;
  readonly ledger: Ledger;
  readonly directory: TenantDirectory;
  readonly parked: ParkedTenants;
  readonly clock: Clock;
  /** Whether the destination answers at all, asked when it is not clear whose fault a failure is. */
  readonly probe: (signal: AbortSignal) => Promise<boolean>;
}

interface AdmitOutcome {
  readonly admission: Admission;
  readonly blocked?: BlockReason;
}

const WAITING: Admission = { kind: 'waiting' };
const READY: AdmitOutcome = { admission: { kind: 'ready' } };

export function createTenantProvisioner(options: TenantProvisionerOptions): TenantProvisioner {
  return new DestinationTenantProvisioner(options);
}

class DestinationTenantProvisioner implements TenantProvisioner {
  readonly #options: TenantProvisionerOptions;
  readonly #states = new Map<string, TenantState>();
  #lastSuccess = Number.NEGATIVE_INFINITY;

  constructor(options: TenantProvisionerOptions) {
    this.#options = options;
  }

  async admit(
    firstEvents: ReadonlyMap<string, UsageEvent>,
    signal: AbortSignal,
  ): Promise<AdmissionReport> {
    const { directory, parked } = this.#options;
    const admissions = new Map<string, Admission>();
    const changes: RecordChange[] = [];
    let blocked: BlockReason | undefined;
    let failures = 0;
    let successes = 0;
    await pLimit(CONCURRENCY).map(firstEvents, async ([id, event]) => {
      const reason = parked.reasonOf(id);
      admissions.set(id, reason === undefined ? WAITING : { kind: 'parked', reason });
      // When nobody can be provisioned the destination is down: the rest need not be tried.
      const down = failures >= DOWN_AFTER && successes === 0;
      if (reason !== undefined || blocked?.kind === 'hold' || down) return;
      const outcome = await this.#admitOne(await directory.ofEvent(event), changes, signal);
      admissions.set(id, outcome.admission);
      blocked = graver(blocked, outcome.blocked);
      if (outcome.blocked === undefined) successes += 1;
      else failures += 1;
    });
    await this.#remember(changes);
    return { admissions, ...omitUndefined({ blocked }) };
  }

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
      if (tenant === undefined || parked.reasonOf(id) !== undefined) continue;
      blocked = (await this.#admitOne(tenant, changes, signal)).blocked;
      if (blocked !== undefined) break;
    }
    await this.#remember(changes);
    return blocked;
  }

  async retry(event: UsageEvent, signal: AbortSignal): Promise<StepOutcome> {
    const changes: RecordChange[] = [];
    const tenant = await this.#options.directory.ofEvent(event);
    const outcome = await this.#provision(tenant, changes, signal);
    await this.#remember(changes);
    return outcome;
  }

  accepted(tenant: string): void {
    this.#lastSuccess = this.#options.clock.monotonic();
    const state = this.#states.get(tenant);
    if (state?.kind !== 'ready' || state.refusals === 0) return;
    this.#states.set(tenant, { ...state, refusals: 0 });
  }

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

  /** `changes` gathers the records to write. */
  async #admitOne(
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<AdmitOutcome> {
    const state = this.#states.get(tenant.id);
    if (state?.kind === 'ready' && state.fingerprint === tenantFingerprint(tenant)) return READY;
    const outcome = await this.#provision(tenant, changes, signal);
    if (outcome.kind === 'done') return READY;
    if (outcome.kind === 'hold') return { admission: WAITING, blocked: outcome };
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
    const { destination, directory, clock } = this.#options;
    const outcome = await attempt(destination, tenant, signal);
    if (outcome.kind !== 'done') return outcome;
    this.#lastSuccess = clock.monotonic();
    const state = this.#states.get(tenant.id);
    const refusals = state?.kind === 'ready' ? state.refusals : 0;
    const fingerprint = tenantFingerprint(tenant);
    this.#states.set(tenant.id, { kind: 'ready', fingerprint, refusals });
    changes.push(directory.provisioned(tenant));
    return outcome;
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

  /** What it changes is only a memory aid: an event is never sent later for the lack of it. */
  async #remember(changes: readonly RecordChange[]): Promise<void> {
    if (changes.length > 0) await this.#options.ledger.writeRecords(changes);
  }
}

/** A destination that throws is at fault itself, not the tenant. */
async function attempt(
  destination: Destination,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<StepOutcome> {
  const shared = tenant.sharedCustomerIds?.[destination.type];
  if (shared !== undefined) {
    const mend = 'name it for one tenant only';
    return {
      kind: 'rejected',
      reason: `customer id of several tenants: ${quote(shared)}; ${mend}`,
    };
  }
  try {
    const outcome = await destination.provision(tenant, signal);
    if (outcome.kind !== 'drain') return outcome;
    const changed = await destination.change?.(tenant, outcome.before, signal);
    if (changed === undefined) return { kind: 'rejected', reason: outcome.reason };
    return changed.kind === 'changed' ? { kind: 'done' } : changed;
  } catch (error) {
    return { kind: 'retry', reason: `provisioning failed: ${errorText(error)}` };
  }
}
