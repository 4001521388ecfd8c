import type { DestinationSettings } from '../settings/settings.ts';
import type { LateRefusal } from '../destinations/destination.ts';
import type { UnpricedUsage } from '../destinations/prices.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { bytesOf, stretchThatFits } from '../ledger/volume-needed.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { ParkedTenant } from './lanes/parked-tenants.ts';
import type { PlanChangeStatus } from './lanes/plan-changes.ts';
import type { InvoiceReport } from './operations/invoice-report.ts';

/** Delivery to one destination, without secrets. Times are milliseconds since the epoch. */
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
  /** Why nothing is sent until an operator acts. Absent if nothing needs an operator. */
  readonly blocked?: string;
  /** Why the newest spec of its custom resource is not in force. Absent if it is. */
  readonly problem?: DestinationProblem;
  /** Every event up to here is delivered, or set aside for a stated reason. */
  readonly cursor: number;
  /** End of the window of the event at the cursor, RFC 3339. */
  readonly cursorWindowEnd?: string;
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** Absent if it has no cursor. */
  readonly backlog?: Backlog;
  /** Since the start of the process. */
  readonly delivered: number;
  /** Events of metrics that the destination does not want, since the start of the process. */
  readonly skipped: number;
  readonly deadLetters: number;
  /** Events that wait for their tenant, or for the change of its plan. */
  readonly parked: number;
  /** The tenants that cannot be served at the moment. */
  readonly parkedTenants: readonly ParkedTenant[];
  /** Number of tenants that are offboarded after their last event. */
  readonly offboarding: number;
  /** Pending changes of plan, the first twenty. */
  readonly planChanges: readonly PlanChangeStatus[];
  /** Codes in its `metrics` that are not in the catalogue. */
  readonly unknownMetrics: readonly string[];
  /** Kinds of delivered usage without a price at the destination, the first twenty. */
  readonly unpriced: readonly UnpricedUsage[];
  /** Usage that the destination accepted and refused later, the newest twenty. */
  readonly lateRefusals: readonly LateRefusal[];
  /** Compares its invoices with the delivered usage. Absent before the first comparison. */
  readonly invoices?: InvoiceReport;
  /** Most events a second that it accepts. Absent if unknown. */
  readonly eventsPerSecond?: number;
  readonly consecutiveFailures: number;
  readonly lastSuccessAt?: number;
  /** Absent after delivery succeeds again. */
  readonly lastError?: string;
  readonly lastErrorAt?: number;
}

/** The events in the ledger that wait for a destination. */
export interface Backlog {
  /** End of the window of the event at the cursor, RFC 3339. Absent if unknown. */
  readonly windowEnd?: string;
  /** Approximate size of the waiting events in the ledger. */
  readonly bytes: number;
  /** Milliseconds until the volume is full if nothing is sent. Absent if unknown. */
  readonly fullInMs?: number;
}

/** Why the newest spec of a destination cannot be used. */
export interface DestinationProblem {
  /** The reason of the condition `Ready`, for example `SecretNotFound`. */
  readonly reason: string;
  /** Without secrets. */
  readonly message: string;
  /** Whether the last valid settings stay in force. Otherwise nothing is sent. */
  readonly inForce: boolean;
}

/** A destination that exists, with usable settings or not. */
export interface ExistingDestination {
  readonly name: string;
  readonly type: string;
  readonly suspend: boolean;
  /**
   * Where its cursor begins. Absent if this process does not create the cursor: the resource is
   * being deleted, or another process creates it.
   */
  readonly startFrom?: DestinationSettings['startFrom'];
  /** Absent if its newest spec is in force, or was not evaluated yet. */
  readonly problem?: Omit<DestinationProblem, 'inForce'>;
}

/** The fields of a status that depend on the cursor alone. */
export type CursorField = 'cursor' | 'cursorWindowEnd' | 'lagEvents' | 'lagSeconds' | 'backlog';

/**
 * Returns a destination's cursor and its lag. `oldestWindowEnd` is the window end of the oldest
 * undelivered event, RFC 3339, if known.
 */
export function cursorStatus(
  {
    name,
    ledger,
    clock,
  }: { readonly name: string; readonly ledger: Ledger; readonly clock: Clock },
  oldestWindowEnd?: string,
): Pick<DestinationStatus, CursorField> {
  const cursor = ledger.cursors().find(({ destination }) => destination === name);
  const head = ledger.head();
  const lagEvents = Math.max(0, head - (cursor?.sequence ?? head));
  const now = clock.now();
  const windowEnd = cursor?.windowEnd;
  const oldest = oldestWindowEnd ?? windowEnd;
  const oldestAt = oldest === undefined ? ledger.stats().oldestAt : Date.parse(oldest);
  const behindMs = lagEvents === 0 ? 0 : Math.max(0, now - (oldestAt ?? now));
  const fitsMs = stretchThatFits(ledger, now);
  const fullInMs = fitsMs && Math.max(0, fitsMs - behindMs);
  const backlog = { bytes: bytesOf(lagEvents), windowEnd, fullInMs };
  return {
    cursor: cursor?.sequence ?? 0,
    cursorWindowEnd: windowEnd,
    backlog: cursor && backlog,
    lagEvents,
    lagSeconds: behindMs / 1000,
  };
}
