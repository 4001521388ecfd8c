import pLimit from 'p-limit';
import type { Destination, StepOutcome } from '../destinations/destination.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { UsageEvent } from '../model/event.ts';
import { type Trouble, worse } from './entry.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { TenantDirectory } from './tenant-directory.ts';
import { tenantFingerprint } from './tenant-source.ts';

const CONCURRENCY = 8;
/** Failures of one tenant in a row, while others succeed, before its events are parked. */
const MAX_FAILURES = 5;
/** How often the other side may say that it does not know a tenant that it was just told of. */
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
  readonly trouble?: Trouble;
}

/**
 * Provisions a tenant before its first event and whenever it changes, and has the events of one that
 * cannot be provisioned set aside, out of the way of all others (design 7).
 */
export interface TenantGate {
  /** Provisions what needs it. `firstEvents` has the earliest event to send of each tenant. */
  admit(
    firstEvents: ReadonlyMap<string, UsageEvent>,
    signal: AbortSignal,
  ): Promise<AdmissionReport>;
  /** Provisions again what has changed since, whether or not it has events. */
  refresh(signal: AbortSignal): Promise<Trouble | undefined>;
  /** Provisions a parked tenant; it stays parked. */
  retry(event: UsageEvent, signal: AbortSignal): Promise<StepOutcome>;
  /** One event of the tenant was accepted. */
  accepted(tenant: string): void;
  /** The other side says that it does not know the tenant. */
  refused(tenant: string, reason: string): void;
  /** The tenant was offboarded. */
  forget(tenant: string): void;
}

export interface TenantGateOptions {
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
  readonly trouble?: Trouble;
}

const WAITING: Admission = { kind: 'waiting' };
const READY: AdmitOutcome = { admission: { kind: 'ready' } };

export function createTenantGate(options: TenantGateOptions): TenantGate {
  const { destination, ledger, directory, parked, clock } = options;
  const states = new Map<string, TenantState>();
  let lastSuccess = Number.NEGATIVE_INFINITY;

  /** What it changes is only a memory aid: an event is never sent later for the lack of it. */
  const remember = async (changes: readonly RecordChange[]): Promise<void> => {
    if (changes.length > 0) await ledger.writeRecords(changes);
  };

  const provision = async (
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<StepOutcome> => {
    const outcome = await attempt(destination, tenant, signal);
    if (outcome.kind !== 'done') return outcome;
    lastSuccess = clock.monotonic();
    const state = states.get(tenant.id);
    const refusals = state?.kind === 'ready' ? state.refusals : 0;
    states.set(tenant.id, { kind: 'ready', fingerprint: tenantFingerprint(tenant), refusals });
    changes.push(directory.told(tenant));
    return outcome;
  };

  const park = (tenant: Tenant, reason: string): AdmitOutcome => {
    parked.add(tenant.id, reason, tenantFingerprint(tenant));
    return { admission: { kind: 'parked', reason } };
  };

  /** `changes` gathers the records to write. */
  const admitOne = async (
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<AdmitOutcome> => {
    const state = states.get(tenant.id);
    if (state?.kind === 'ready' && state.fingerprint === tenantFingerprint(tenant)) return READY;
    const outcome = await provision(tenant, changes, signal);
    if (outcome.kind === 'done') return READY;
    if (outcome.kind === 'hold') return { admission: WAITING, trouble: outcome };
    if (outcome.kind === 'rejected') return park(tenant, outcome.reason);
    const { failures, since } = failed(tenant.id);
    const alone =
      failures >= MAX_FAILURES && (lastSuccess > since || (await options.probe(signal)));
    return alone ? park(tenant, outcome.reason) : { admission: WAITING, trouble: outcome };
  };

  const failed = (tenant: string): Extract<TenantState, { readonly kind: 'failing' }> => {
    const state = states.get(tenant);
    const before = state?.kind === 'failing' ? state : { failures: 0, since: clock.monotonic() };
    const next = { kind: 'failing', failures: before.failures + 1, since: before.since } as const;
    states.set(tenant, next);
    return next;
  };

  return {
    admit: async (firstEvents, signal) => {
      const admissions = new Map<string, Admission>();
      const changes: RecordChange[] = [];
      let trouble: Trouble | undefined;
      let failures = 0;
      let successes = 0;
      await pLimit(CONCURRENCY).map(firstEvents, async ([id, event]) => {
        const reason = parked.reasonOf(id);
        admissions.set(id, reason === undefined ? WAITING : { kind: 'parked', reason });
        // When nobody can be provisioned the destination is down: the rest need not be tried.
        const down = failures >= DOWN_AFTER && successes === 0;
        if (reason !== undefined || trouble?.kind === 'hold' || down) return;
        const outcome = await admitOne(await directory.ofEvent(event), changes, signal);
        admissions.set(id, outcome.admission);
        trouble = worse(trouble, outcome.trouble);
        if (outcome.trouble === undefined) successes += 1;
        else failures += 1;
      });
      await remember(changes);
      return { admissions, ...(trouble !== undefined && { trouble }) };
    },

    refresh: async (signal) => {
      parked.hurryChanged((id) => {
        const tenant = directory.current(id);
        return tenant && tenantFingerprint(tenant);
      });
      const changes: RecordChange[] = [];
      let trouble: Trouble | undefined;
      for (const id of states.keys()) {
        const tenant = directory.current(id);
        if (tenant === undefined || parked.reasonOf(id) !== undefined) continue;
        trouble = (await admitOne(tenant, changes, signal)).trouble;
        if (trouble !== undefined) break;
      }
      await remember(changes);
      return trouble;
    },

    retry: async (event, signal) => {
      const changes: RecordChange[] = [];
      const outcome = await provision(await directory.ofEvent(event), changes, signal);
      await remember(changes);
      return outcome;
    },
    accepted: (tenant) => {
      lastSuccess = clock.monotonic();
      const state = states.get(tenant);
      if (state?.kind !== 'ready' || state.refusals === 0) return;
      states.set(tenant, { ...state, refusals: 0 });
    },
    refused: (tenant, reason) => {
      const state = states.get(tenant);
      const refusals = (state?.kind === 'ready' ? state.refusals : 0) + 1;
      // Without a fingerprint it is provisioned again before the next attempt.
      states.set(tenant, { kind: 'ready', fingerprint: '', refusals });
      if (refusals >= MAX_REFUSALS) parked.add(tenant, reason);
    },
    forget: (tenant) => {
      states.delete(tenant);
      directory.forget(tenant);
    },
  };
}

/** A destination that throws is at fault itself, not the tenant. */
async function attempt(
  destination: Destination,
  tenant: Tenant,
  signal: AbortSignal,
): Promise<StepOutcome> {
  try {
    return await destination.provision(tenant, signal);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: 'retry', reason: `provisioning failed: ${reason}` };
  }
}
