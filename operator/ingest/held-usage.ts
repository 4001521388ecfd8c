import type { EventOutcome, Ledger, LedgerFailure } from '../ledger/ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { KeptEvent } from './held-records.ts';

/** Held events that there may be at once; more are not taken, so that memory and records stay bounded. */
export const MOST_HELD = 20_000;
/** A tenant that nobody knows and that usage was pushed for. */
export interface HeldTenant {
  readonly tenant: string;
  readonly events: number;
  /** When the first of them came, milliseconds since the epoch. */
  readonly since: number;
}

/** A tenant that usage was pushed for and that discovery does not know. */
export interface PushedTenant {
  readonly id: string;
  /** When usage of it first came, milliseconds since the epoch. */
  readonly since: number;
}

/** `outcomes[i]` belongs to `events[i]`; what is held counts as accepted. */
export type PushOutcome =
  | {
      readonly kind: 'appended';
      readonly outcomes: readonly EventOutcome[];
      /** How many of the accepted events and repeats are held, by tenant. */
      readonly held: ReadonlyMap<string, number>;
    }
  /** Nothing is recorded: too much is held already. */
  | { readonly kind: 'too-much-held' }
  | LedgerFailure;

export type HeldDecision =
  | {
      readonly kind: 'decided';
      /** Events that went on, or were given up. */
      readonly events: number;
      /** Of those the ones that were recorded under the new name before. */
      readonly duplicates: number;
      /** Ids that the new name has with another quantity: these events are still held. */
      readonly conflicts: readonly string[];
    }
  | { readonly kind: 'none-held' }
  /** Nothing is changed; says why. */
  | { readonly kind: 'refused'; readonly reason: string }
  | LedgerFailure;

/**
 * The way of pushed events into the ledger. Those of a tenant that nobody knows are kept durably beside
 * the sequence of events, where no destination sees them, until the tenant is discovered or somebody
 * releases, renames or discards them (docs/events.md#unknown-tenants).
 */
export interface HeldUsage {
  /** Reads what earlier processes held; nothing may be pushed before. */
  load(): Promise<void>;
  /** Appends events as one durable unit, or holds them. */
  push(events: readonly UsageEvent[]): Promise<PushOutcome>;
  /** Sorted by tenant. */
  list(): readonly HeldTenant[];
  /** The held events of a tenant. */
  eventsOf(tenant: string): AsyncIterable<KeptEvent>;
  /** Tenants of pushed usage, held or not, that discovery does not know, sorted. */
  pushedTenants(): readonly PushedTenant[];
  /** Lets the events go on, and all later ones of the tenant. */
  release(tenant: string): Promise<HeldDecision>;
  /** Gives the events to a known tenant instead. */
  rename(tenant: string, to: string): Promise<HeldDecision>;
  /** Gives the events up; their ids stay used. */
  discard(tenant: string): Promise<HeldDecision>;
  /** Releases the tenants that need not be held any longer: discovery knows them, or the setting has changed. */
  releaseKnown(): Promise<void>;
}

export interface HeldUsageOptions {
  readonly ledger: Ledger;
  readonly clock: Pick<Clock, 'now'>;
  readonly unknownTenants: () => 'hold' | 'create';
  /** Whether discovery knows the tenant. */
  readonly isDiscovered: (tenant: string) => boolean;
  /** Whether any destination has served the tenant before, as a customer of its own. */
  readonly wasServed: (tenant: string) => Promise<boolean>;
  /** Whether the collector measures such events of the tenant itself. */
  readonly isMeasuredHere: (event: UsageEvent) => boolean;
}
