import type { Destination, StepOutcome, Tenant } from '../destinations/destination.ts';
import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { UsageEvent } from '../usage/event.ts';
import { backoffMs } from './backoff.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import { type Trouble, worse } from './entry.ts';
import { mapConcurrently } from './map-concurrently.ts';
import {
  billableFrom,
  tenantFingerprint,
  tenantOfEvent,
  unknownTenant,
  type TenantSource,
} from './tenant-source.ts';

const CONCURRENCY = 8;
/** Failures of one tenant in a row, while others succeed, before its events are parked. */
const PATIENCE = 3;

/** A tenant whose events are kept, in order, until it can be served. */
export interface ParkedTenant {
  readonly tenant: string;
  readonly reason: string;
  readonly events: number;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

type TenantState =
  | { readonly kind: 'ready'; readonly fingerprint: string; readonly refusals: number }
  | { readonly kind: 'failing'; readonly failures: number; readonly since: number }
  | ParkedState;

interface ParkedState {
  readonly kind: 'parked';
  readonly reason: string;
  readonly fingerprint: string;
  readonly since: number;
  events: number;
  failures: number;
  /** Monotonic milliseconds. */
  retryAt: number;
}

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
 * Provisions a tenant before its first event and whenever it changes, and keeps the events of one that
 * cannot be provisioned out of the way of all others (design 7).
 */
export interface TenantGate {
  load(): Promise<void>;
  /** Provisions what needs it. `firstEvents` has the first event to send of each tenant. */
  admit(
    firstEvents: ReadonlyMap<string, UsageEvent>,
    signal: AbortSignal,
  ): Promise<AdmissionReport>;
  /** Provisions again what has changed since, whether or not it has events. */
  refresh(signal: AbortSignal): Promise<Trouble | undefined>;
  /** One event of the tenant was accepted. */
  accepted(tenant: string): void;
  /** The other side says that it does not know the tenant. */
  refused(tenant: string, reason: string): void;
  /** Keeps the tenant's events until it can be served. */
  park(tenant: string, reason: string): void;
  isParked(tenant: string): boolean;
  /** An event of the tenant was added to its parked records. */
  addedParked(tenant: string): void;
  /** Parked events of the tenant were settled; others may have their turn before it goes on. */
  settledParked(tenant: string, events: number): void;
  /** A parked tenant whose time to try again has come. */
  due(): string | undefined;
  /** Milliseconds until the next parked tenant is due; undefined when none is parked. */
  dueIn(): number | undefined;
  /** Tries to provision a parked tenant; it stays parked. */
  retryParked(tenant: string, event: UsageEvent, signal: AbortSignal): Promise<StepOutcome>;
  /** The parked tenant could not be served this time either. */
  postpone(tenant: string, reason: string, afterMs?: number): void;
  /** Nothing of the tenant is parked any more. */
  unpark(tenant: string): void;
  /** The tenant was offboarded. */
  forget(tenant: string): void;
  parked(): readonly ParkedTenant[];
  /** The tenant as discovery knows it, else as the destination was told last. */
  describe(tenant: string): Promise<Tenant>;
}

export interface TenantGateOptions {
  readonly destination: Destination;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly tenants: TenantSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly maxBackfillMs: () => number;
  /** Whether the destination answers at all, asked when it is not clear whose fault a failure is. */
  readonly probe: (signal: AbortSignal) => Promise<boolean>;
  readonly onParked: (tenant: string, reason: string) => void;
}

export function createTenantGate(options: TenantGateOptions): TenantGate {
  const { destination, ledger, records, tenants, clock, random, onParked } = options;
  const states = new Map<string, TenantState>();
  /** Provisioned tenants as last told to the destination; also those of earlier runs, once asked for. */
  const lastTold = new Map<string, Tenant>();
  let lastSuccess = Number.NEGATIVE_INFINITY;

  const lookUpTold = async (id: string): Promise<Tenant | undefined> =>
    lastTold.get(id) ?? (await records.tenant(id));

  const describe = async (event: UsageEvent): Promise<Tenant> => {
    const id = event.tenant;
    const told = await lookUpTold(id);
    const tenant = tenants.find(id) ?? told ?? tenantOfEvent(event);
    const before = told?.billableFrom === undefined ? {} : { billableFrom: told.billableFrom };
    const merged = { ...tenant, ...before };
    return { ...merged, billableFrom: billableFrom(merged, event, options.maxBackfillMs()) };
  };

  const provision = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
    try {
      return await destination.provision(tenant, signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'retry', reason: `provisioning failed: ${reason}` };
    }
  };

  const park = (tenant: string, reason: string, fingerprint = ''): void => {
    const state = states.get(tenant);
    if (state?.kind === 'parked') return;
    const retryAt = clock.monotonic() + backoffMs(1, random);
    const since = clock.now();
    states.set(tenant, {
      kind: 'parked',
      reason,
      fingerprint,
      since,
      events: 0,
      failures: 1,
      retryAt,
    });
    onParked(tenant, reason);
  };

  const succeeded = (tenant: Tenant): RecordChange => {
    lastSuccess = clock.monotonic();
    const refusals = refusalsOf(states.get(tenant.id));
    const fingerprint = tenantFingerprint(tenant);
    states.set(tenant.id, { kind: 'ready', fingerprint, refusals });
    lastTold.set(tenant.id, tenant);
    return records.putTenant(tenant);
  };

  /** What became of one tenant; `changes` gathers the records to write. */
  const admitOne = async (
    tenant: Tenant,
    changes: RecordChange[],
    signal: AbortSignal,
  ): Promise<{ readonly admission: Admission; readonly trouble?: Trouble }> => {
    const fingerprint = tenantFingerprint(tenant);
    const state = states.get(tenant.id);
    if (state?.kind === 'parked') return { admission: { kind: 'parked', reason: state.reason } };
    if (state?.kind === 'ready' && state.fingerprint === fingerprint) return READY;
    const outcome = await provision(tenant, signal);
    if (outcome.kind === 'done') {
      changes.push(succeeded(tenant));
      return READY;
    }
    if (outcome.kind === 'hold') return { admission: WAITING, trouble: outcome };
    if (outcome.kind === 'rejected') {
      park(tenant.id, outcome.reason, fingerprint);
      return { admission: { kind: 'parked', reason: outcome.reason } };
    }
    const failing = failed(tenant.id);
    if (failing.failures >= PATIENCE && (await othersSucceed(failing.since, signal))) {
      park(tenant.id, outcome.reason, fingerprint);
      return { admission: { kind: 'parked', reason: outcome.reason } };
    }
    return { admission: WAITING, trouble: outcome };
  };

  const failed = (tenant: string): Extract<TenantState, { readonly kind: 'failing' }> => {
    const state = states.get(tenant);
    const before = state?.kind === 'failing' ? state : { failures: 0, since: clock.monotonic() };
    const next = { kind: 'failing', failures: before.failures + 1, since: before.since } as const;
    states.set(tenant, next);
    return next;
  };

  const othersSucceed = async (since: number, signal: AbortSignal): Promise<boolean> =>
    lastSuccess > since || options.probe(signal);

  return {
    load: async () => {
      for await (const { event, at, reason } of records.parked()) {
        park(event.tenant, reason);
        const state = states.get(event.tenant);
        if (state?.kind !== 'parked') continue;
        states.set(event.tenant, {
          ...state,
          since: Math.min(state.since, at),
          events: state.events + 1,
          retryAt: clock.monotonic(),
        });
      }
    },

    admit: async (firstEvents, signal) => {
      const admissions = new Map<string, Admission>();
      const changes: RecordChange[] = [];
      let trouble: Trouble | undefined;
      let failures = 0;
      let successes = 0;
      await mapConcurrently([...firstEvents], CONCURRENCY, async ([id, event]) => {
        admissions.set(id, WAITING);
        // When nobody can be provisioned the destination is down: the rest need not be tried.
        if (trouble?.kind === 'hold' || (failures >= PATIENCE && successes === 0)) return;
        const result = await admitOne(await describe(event), changes, signal);
        admissions.set(id, result.admission);
        trouble = worse(trouble, result.trouble);
        if (result.trouble === undefined) successes += 1;
        else failures += 1;
      });
      // Only a memory aid: an event is never sent later for the lack of it.
      if (changes.length > 0) await ledger.writeRecords(changes);
      return { admissions, ...(trouble !== undefined && { trouble }) };
    },

    refresh: async (signal) => {
      const changes: RecordChange[] = [];
      let trouble: Trouble | undefined;
      for (const [id, state] of states) {
        const tenant = tenants.find(id);
        if (tenant === undefined) continue;
        const before = state.kind === 'failing' ? undefined : state.fingerprint;
        if (before === tenantFingerprint(tenant)) continue;
        if (state.kind === 'parked') {
          state.retryAt = clock.monotonic();
          continue;
        }
        const told = lastTold.get(id)?.billableFrom;
        const next = told === undefined ? tenant : { ...tenant, billableFrom: told };
        const result = await admitOne(next, changes, signal);
        trouble = worse(trouble, result.trouble);
        if (trouble !== undefined) break;
      }
      if (changes.length > 0) await ledger.writeRecords(changes);
      return trouble;
    },

    accepted: (tenant) => {
      lastSuccess = clock.monotonic();
      const state = states.get(tenant);
      if (state?.kind === 'ready' && state.refusals > 0)
        states.set(tenant, { ...state, refusals: 0 });
    },
    refused: (tenant, reason) => {
      const state = states.get(tenant);
      if (state?.kind === 'parked') return;
      const refusals = refusalsOf(state) + 1;
      if (refusals >= PATIENCE) park(tenant, reason);
      else states.set(tenant, { kind: 'ready', fingerprint: '', refusals });
    },
    park,
    isParked: (tenant) => states.get(tenant)?.kind === 'parked',
    addedParked: (tenant) => {
      const state = states.get(tenant);
      if (state?.kind === 'parked') state.events += 1;
    },
    settledParked: (tenant, events) => {
      const state = states.get(tenant);
      if (state?.kind !== 'parked' || events === 0) return;
      const retryAt = clock.monotonic();
      // To the end of the map: of several that are due, the first is served.
      states.delete(tenant);
      states.set(tenant, { ...state, events: state.events - events, failures: 0, retryAt });
    },

    due: () => {
      const now = clock.monotonic();
      let next: readonly [tenant: string, retryAt: number] | undefined;
      for (const [tenant, state] of states) {
        if (state.kind !== 'parked' || state.retryAt > now) continue;
        if (next === undefined || state.retryAt < next[1]) next = [tenant, state.retryAt];
      }
      return next?.[0];
    },
    dueIn: () => {
      const times = [...states.values()].flatMap((state) =>
        state.kind === 'parked' ? [state.retryAt] : [],
      );
      if (times.length === 0) return undefined;
      return Math.max(0, Math.min(...times) - clock.monotonic());
    },
    retryParked: async (id, event, signal) => {
      const tenant = await describe(event);
      const outcome = await provision(tenant, signal);
      if (outcome.kind !== 'done') return outcome;
      lastSuccess = clock.monotonic();
      lastTold.set(id, tenant);
      await ledger.writeRecords([records.putTenant(tenant)]);
      return outcome;
    },
    postpone: (tenant, reason, afterMs = 0) => {
      const state = states.get(tenant);
      if (state?.kind !== 'parked') return;
      const failures = state.failures + 1;
      const wait = Math.max(afterMs, backoffMs(failures, random));
      const fingerprint = fingerprintOf(tenants.find(tenant));
      const retryAt = clock.monotonic() + wait;
      states.set(tenant, { ...state, reason, fingerprint, failures, retryAt });
    },
    unpark: (tenant) => {
      const told = lastTold.get(tenant);
      const fingerprint = fingerprintOf(told);
      states.set(tenant, { kind: 'ready', fingerprint, refusals: 0 });
    },
    forget: (tenant) => {
      states.delete(tenant);
      lastTold.delete(tenant);
    },
    describe: async (tenant) =>
      tenants.find(tenant) ?? (await lookUpTold(tenant)) ?? unknownTenant(tenant),
    parked: () =>
      [...states].flatMap(([tenant, state]) =>
        state.kind === 'parked'
          ? [{ tenant, reason: state.reason, events: state.events, since: state.since }]
          : [],
      ),
  };
}

const WAITING: Admission = { kind: 'waiting' };
const READY = { admission: { kind: 'ready' } } as const;

function refusalsOf(state: TenantState | undefined): number {
  return state?.kind === 'ready' ? state.refusals : 0;
}

function fingerprintOf(tenant: Tenant | undefined): string {
  return tenant === undefined ? '' : tenantFingerprint(tenant);
}
