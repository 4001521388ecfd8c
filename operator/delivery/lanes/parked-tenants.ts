import { least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { retryDelayMs } from '../delivery-result.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { WAITS_FOR_CHANGE } from './plan-changes.ts';

/** A tenant whose events wait, in order, until it can be served. */
export interface ParkedTenant {
  readonly tenant: string;
  readonly reason: string;
  readonly events: number;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

interface ParkedState {
  readonly reason: string;
  /** The tenant's fingerprint at the last attempt. */
  readonly fingerprint: string;
  readonly since: number;
  readonly failures: number;
  /** Monotonic milliseconds. */
  readonly retryAt: number;
  readonly events: number;
}

/** Parked tenants, each with the reason and the next attempt. Their events are records. */
export class ParkedTenants {
  readonly #records: DeliveryRecords;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #onParked: (tenant: string, reason: string) => void;
  readonly #states = new Map<string, ParkedState>();

  constructor(
    records: DeliveryRecords,
    clock: Clock,
    random: () => number,
    onParked: (tenant: string, reason: string) => void,
  ) {
    this.#records = records;
    this.#clock = clock;
    this.#random = random;
    this.#onParked = onParked;
  }

  /** Reads the records of earlier processes. Rejects when they cannot be read: call it again. */
  async load(): Promise<void> {
    this.#states.clear();
    for await (const { event, at, reason } of this.#records.parked()) {
      const fresh = { reason, fingerprint: '', since: at, failures: 0, retryAt: 0, events: 0 };
      const state = this.#states.get(event.tenant) ?? fresh;
      const since = Math.min(state.since, at);
      this.#states.set(event.tenant, { ...state, since, events: state.events + 1 });
    }
    for (const [tenant, { reason }] of this.#states) this.#onParked(tenant, reason);
  }

  add(tenant: string, reason: string, fingerprint = ''): void {
    const known = this.#states.get(tenant);
    if (known !== undefined) {
      // A tenant that waits for a change of plan still sends older usage. Another reason stops all
      // of it.
      if (known.reason === WAITS_FOR_CHANGE) this.#change(tenant, () => ({ reason, fingerprint }));
      return;
    }
    const retryAt = this.#clock.monotonic() + retryDelayMs(1, this.#random);
    const since = this.#clock.now();
    this.#states.set(tenant, { reason, fingerprint, since, failures: 1, retryAt, events: 0 });
    this.#onParked(tenant, reason);
  }

  /** Returns why the tenant is parked; undefined if it is not. */
  reasonOf(tenant: string): string | undefined {
    return this.#states.get(tenant)?.reason;
  }

  /** Removes a tenant without parked events. */
  remove(tenant: string): void {
    this.#states.delete(tenant);
  }

  storedEvent(tenant: string): void {
    this.#change(tenant, ({ events }) => ({ events: events + 1 }));
  }

  /** Notes settled events of a parked tenant. Other due tenants come before its next events. */
  settledEvents(tenant: string, events: number): void {
    const state = this.#states.get(tenant);
    if (state === undefined || events === 0) return;
    // Moves it to the end of the map. Among tenants that are due equally long, the first is served.
    this.#states.delete(tenant);
    const retryAt = this.#clock.monotonic();
    this.#states.set(tenant, { ...state, events: state.events - events, failures: 0, retryAt });
  }

  /** Notes another failed attempt, and plans the next one. */
  postpone(tenant: string, reason: string, fingerprint: string, afterMs = 0): void {
    this.#change(tenant, (state) => {
      const failures = state.failures + 1;
      const wait = Math.max(afterMs, retryDelayMs(failures, this.#random));
      return { reason, fingerprint, failures, retryAt: this.#clock.monotonic() + wait };
    });
  }

  /** Notes that the tenant's parked events wait for a change of plan. Checks after `ms`. */
  waitForChange(tenant: string, ms: number): void {
    const retryAt = this.#clock.monotonic() + ms;
    this.#change(tenant, () => ({ reason: WAITS_FOR_CHANGE, failures: 0, retryAt }));
  }

  /** Makes the tenant due at once. */
  hurry(tenant: string): void {
    this.#change(tenant, () => ({ retryAt: this.#clock.monotonic() }));
  }

  /** Makes tenants due at once that changed after their last attempt. */
  hurryChanged(fingerprintOf: (tenant: string) => string | undefined): void {
    for (const [tenant, { fingerprint }] of this.#states) {
      const current = fingerprintOf(tenant);
      if (current !== undefined && current !== fingerprint) this.hurry(tenant);
    }
  }

  /** Returns the tenant that has been due longest; undefined if none is due. */
  due(): string | undefined {
    const now = this.#clock.monotonic();
    let next: readonly [tenant: string, retryAt: number] | undefined;
    for (const [tenant, { retryAt }] of this.#states) {
      if (retryAt <= now && (next === undefined || retryAt < next[1])) next = [tenant, retryAt];
    }
    return next?.[0];
  }

  /** Milliseconds until the next tenant is due; undefined without parked tenants. */
  dueIn(): number | undefined {
    if (this.#states.size === 0) return undefined;
    const next = least([...this.#states.values()].map(({ retryAt }) => retryAt));
    return Math.max(0, next - this.#clock.monotonic());
  }

  list(): readonly ParkedTenant[] {
    return [...this.#states].map(([tenant, { reason, events, since }]) => ({
      tenant,
      reason,
      events,
      since,
    }));
  }

  #change(tenant: string, update: (state: ParkedState) => Partial<ParkedState>): void {
    const state = this.#states.get(tenant);
    if (state !== undefined) this.#states.set(tenant, { ...state, ...update(state) });
  }
}
