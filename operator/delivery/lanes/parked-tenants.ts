import { least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { retryDelayMs } from '../delivery-result.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { WAITS_FOR_CHANGE } from './plan-changes.ts';

/** A tenant whose events are kept, in order, until it can be served. */
export interface ParkedTenant {
  readonly tenant: string;
  readonly reason: string;
  readonly events: number;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

interface ParkedState {
  readonly reason: string;
  /** What the tenant was like at the last attempt. */
  readonly fingerprint: string;
  readonly since: number;
  readonly failures: number;
  /** Monotonic milliseconds. */
  readonly retryAt: number;
  readonly events: number;
}

/** Which tenants are set aside, why, and when each is tried again. Their events are ledger records. */
export interface ParkedTenants {
  load(): Promise<void>;
  add(tenant: string, reason: string, fingerprint?: string): void;
  /** Why the tenant is set aside; undefined when it is not. */
  reasonOf(tenant: string): string | undefined;
  /** Nothing of the tenant is kept any more. */
  remove(tenant: string): void;
  /** One more event of the tenant is kept. */
  keptEvent(tenant: string): void;
  /** Kept events of the tenant are settled; others have their turn before it goes on. */
  settledEvents(tenant: string, events: number): void;
  /** The tenant could not be served this time either. */
  postpone(tenant: string, reason: string, fingerprint: string, afterMs?: number): void;
  /** All that is kept of the tenant waits for the change of its plan, which is looked at again after `ms`. */
  waitForChange(tenant: string, ms: number): void;
  /** Whatever the tenant waited for is there. */
  hurry(tenant: string): void;
  /** Tries those at once that are no longer what they were at the last attempt. */
  hurryChanged(fingerprintOf: (tenant: string) => string | undefined): void;
  /** A tenant whose time to try again has come: of several the one that waits longest. */
  due(): string | undefined;
  /** Milliseconds until the next is due; undefined when there is none. */
  dueIn(): number | undefined;
  list(): readonly ParkedTenant[];
}

export interface ParkedTenantsOptions {
  readonly records: DeliveryRecords;
  readonly clock: Clock;
  readonly random: () => number;
  readonly onParked: (tenant: string, reason: string) => void;
}

export function createParkedTenants(options: ParkedTenantsOptions): ParkedTenants {
  const { records, clock, random, onParked } = options;
  const states = new Map<string, ParkedState>();
  const change = (tenant: string, update: (state: ParkedState) => Partial<ParkedState>): void => {
    const state = states.get(tenant);
    if (state !== undefined) states.set(tenant, { ...state, ...update(state) });
  };

  return {
    load: async () => {
      for await (const { event, at, reason } of records.parked()) {
        const fresh = { reason, fingerprint: '', since: at, failures: 0, retryAt: 0, events: 0 };
        const state = states.get(event.tenant) ?? fresh;
        const since = Math.min(state.since, at);
        states.set(event.tenant, { ...state, since, events: state.events + 1 });
      }
      for (const [tenant, { reason }] of states) onParked(tenant, reason);
    },
    add: (tenant, reason, fingerprint = '') => {
      const known = states.get(tenant);
      if (known !== undefined) {
        // What waits for a change of plan lets the rest go on; what cannot be served does not.
        if (known.reason === WAITS_FOR_CHANGE) change(tenant, () => ({ reason, fingerprint }));
        return;
      }
      const retryAt = clock.monotonic() + retryDelayMs(1, random);
      const since = clock.now();
      states.set(tenant, { reason, fingerprint, since, failures: 1, retryAt, events: 0 });
      onParked(tenant, reason);
    },
    reasonOf: (tenant) => states.get(tenant)?.reason,
    remove: (tenant) => void states.delete(tenant),
    keptEvent: (tenant) => change(tenant, ({ events }) => ({ events: events + 1 })),
    settledEvents: (tenant, events) => {
      const state = states.get(tenant);
      if (state === undefined || events === 0) return;
      // To the end of the map: of several that wait equally long, the first is served.
      states.delete(tenant);
      const left = { events: state.events - events, failures: 0, retryAt: clock.monotonic() };
      states.set(tenant, { ...state, ...left });
    },
    postpone: (tenant, reason, fingerprint, afterMs = 0) =>
      change(tenant, (state) => {
        const failures = state.failures + 1;
        const wait = Math.max(afterMs, retryDelayMs(failures, random));
        return { reason, fingerprint, failures, retryAt: clock.monotonic() + wait };
      }),
    waitForChange: (tenant, ms) =>
      change(tenant, () => ({
        reason: WAITS_FOR_CHANGE,
        failures: 0,
        retryAt: clock.monotonic() + ms,
      })),
    hurry: (tenant) => change(tenant, () => ({ retryAt: clock.monotonic() })),
    hurryChanged: (fingerprintOf) => {
      for (const [tenant, { fingerprint }] of states) {
        const current = fingerprintOf(tenant);
        if (current === undefined || current === fingerprint) continue;
        change(tenant, () => ({ retryAt: clock.monotonic() }));
      }
    },
    due: () => {
      const now = clock.monotonic();
      let next: readonly [tenant: string, retryAt: number] | undefined;
      for (const [tenant, { retryAt }] of states) {
        if (retryAt <= now && (next === undefined || retryAt < next[1])) next = [tenant, retryAt];
      }
      return next?.[0];
    },
    dueIn: () => {
      if (states.size === 0) return undefined;
      const next = least([...states.values()].map(({ retryAt }) => retryAt));
      return Math.max(0, next - clock.monotonic());
    },
    list: () =>
      [...states].map(([tenant, { reason, events, since }]) => ({ tenant, reason, events, since })),
  };
}
