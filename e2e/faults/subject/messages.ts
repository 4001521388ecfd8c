import type { DestinationName } from '../destinations.ts';
import type { Action, Death, RequestPlan } from '../plan.ts';
import type { Disk } from './disk.ts';
import type { Moment } from './idle-clock.ts';

/** What a process under test is told, one line of JSON each. */
export type Order =
  | ({ readonly kind: 'live' } & LifeOrder)
  /** After `waiting`: go on; so much time has passed meanwhile. */
  | { readonly kind: 'go-on'; readonly elapsed: number };

export interface LifeOrder {
  readonly seed: number;
  readonly directory: string;
  /** Where a copy goes when the life is abandoned. */
  readonly heir: string;
  readonly start: Moment;
  readonly requests: readonly RequestPlan[];
  /** Appended first: what nobody acknowledged in earlier lives. */
  readonly unacknowledged: readonly number[];
  readonly actions: readonly Action[];
  readonly death?: Death;
  readonly failingSync?: number;
  readonly destinations: readonly { readonly name: DestinationName; readonly url: string }[];
  readonly retentionMs: number;
  readonly segmentEvents: number;
  readonly withoutInFlight: boolean;
  /** Every tenant has a prepaid balance. */
  readonly budgets: boolean;
  /** The last life: deliver everything. */
  readonly last: boolean;
  /** Read everything in the end, and tell what is there. */
  readonly inspect: boolean;
}

/** What it says, one line of JSON each. */
export type Message =
  | { readonly kind: 'acknowledged'; readonly request: number }
  | ({ readonly kind: 'passed' } & Moment)
  /** It stands still until it is told to go on. */
  | { readonly kind: 'waiting'; readonly lockDeleted: boolean }
  /** Something that must never happen did. */
  | { readonly kind: 'wrong'; readonly text: string }
  | ({ readonly kind: 'ended' } & End);

export interface End {
  /**
   * `unopened`: the ledger could not be opened. `stopped`: the ledger has stopped for good (fenced,
   * corrupt). `stuck`: delivery does not end.
   */
  readonly how: 'completed' | 'died' | 'unopened' | 'stopped' | 'stuck';
  /** Where it died, or why. */
  readonly where: string;
  readonly cause?: string;
  /** Damage that the ledger reports. */
  readonly reported: readonly string[];
  /** Where to go on: the directory, or the copy of an abandoned one. */
  readonly directory: string;
  /** Bytes of the disk's trace that belong to this life. */
  readonly traced: number;
  readonly ledger?: LedgerEnd;
}

/** What the ledger holds in the end. */
export interface LedgerEnd {
  /** `[sequence, id, content]` */
  readonly events: readonly (readonly [number, string, string])[];
  /** Why events were given up, each reason once. */
  readonly deadLetters: readonly string[];
  /** What ended before it may have been deleted, milliseconds since the epoch; 0 while nothing was. */
  readonly horizon: number;
  /** Prepaid balances in 10⁻²¹ of the currency's unit, where tenants have some. */
  readonly balances?: readonly {
    readonly tenant: string;
    /** The first usage that counts, milliseconds since the epoch. */
    readonly since: number;
    readonly credited: string;
    readonly used: string;
  }[];
}

/** What one life of the operator works with. */
export interface LifeOptions {
  readonly order: LifeOrder;
  readonly disk: Disk;
  readonly report: (message: Message) => void;
  /** Stands still until told otherwise; gives the true time that it is then. */
  readonly wait: (lockDeleted: boolean) => Promise<number>;
}
