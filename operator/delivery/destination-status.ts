import type { LateRefusal, UnpricedUsage } from '../destinations/destination.ts';
import type { ParkedTenant } from './parked-tenants.ts';

/** Where delivery to one destination stands. Times are milliseconds since the epoch. No secrets. */
export interface DestinationStatus {
  readonly name: string;
  readonly type: string;
  /** Events are being delivered, or there is nothing to deliver. */
  readonly ready: boolean;
  readonly suspended: boolean;
  /** The billing system has what it needs before any event. */
  readonly bootstrapped: boolean;
  /** The last attempt was accepted, or none was needed yet. */
  readonly delivering: boolean;
  /** Why nothing is sent until an operator acts, if that is so. */
  readonly held?: string;
  /** Every event up to here is delivered, or set aside for a stated reason. */
  readonly cursor: number;
  /** End of the window of the event at the cursor, RFC 3339. */
  readonly cursorWindowEnd?: string;
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** Since the start of the process. */
  readonly delivered: number;
  /** Events of metrics that the destination does not want, since the start of the process. */
  readonly skipped: number;
  readonly deadLetters: number;
  /** Events that wait for their tenant. */
  readonly parked: number;
  readonly parkedTenants: readonly ParkedTenant[];
  /** Tenants that are to be offboarded once their last event is through. */
  readonly offboarding: number;
  /** Kinds of usage that came and that nobody has priced there, the first twenty. */
  readonly unpriced: readonly UnpricedUsage[];
  /** Usage that the destination took and refused later, the newest twenty. */
  readonly lateRefusals: readonly LateRefusal[];
  /** Events a second that it takes at the most, as far as is known. */
  readonly eventsPerSecond?: number;
  readonly consecutiveFailures: number;
  readonly lastSuccessAt?: number;
  /** Gone once delivery succeeds. */
  readonly lastError?: string;
  readonly lastErrorAt?: number;
}
