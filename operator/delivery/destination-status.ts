import type { DestinationSettings } from '../settings/settings.ts';
import type { LateRefusal } from '../destinations/destination.ts';
import type { UnpricedUsage } from '../destinations/prices.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { bytesOf, stretchThatFits } from '../ledger/volume-needed.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { ParkedTenant } from './lanes/parked-tenants.ts';
import type { PlanChangeStatus } from './lanes/plan-changes.ts';
import type { InvoiceReport } from './operations/invoice-report.ts';

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
  readonly blocked?: string;
  /** What keeps the newest spec of its custom resource from being in force, if anything does. */
  readonly problem?: DestinationProblem;
  /** Every event up to here is delivered, or set aside for a stated reason. */
  readonly cursor: number;
  /** End of the window of the event at the cursor, RFC 3339. */
  readonly cursorWindowEnd?: string;
  readonly lagEvents: number;
  readonly lagSeconds: number;
  /** Absent where it has no cursor. */
  readonly backlog?: Backlog;
  /** Since the start of the process. */
  readonly delivered: number;
  /** Events of metrics that the destination does not want, since the start of the process. */
  readonly skipped: number;
  readonly deadLetters: number;
  /** Events that wait for their tenant, or for the change of its plan. */
  readonly parked: number;
  /** Those that cannot be served at the moment. */
  readonly parkedTenants: readonly ParkedTenant[];
  /** Tenants that are to be offboarded once their last event is through. */
  readonly offboarding: number;
  /** Changes of plan that are still to be made, the first twenty. */
  readonly planChanges: readonly PlanChangeStatus[];
  /** Codes that its `metrics` name and the catalogue lacks. */
  readonly unknownMetrics: readonly string[];
  /** Kinds of usage that came and that nobody has priced there, the first twenty. */
  readonly unpriced: readonly UnpricedUsage[];
  /** Usage that the destination took and refused later, the newest twenty. */
  readonly lateRefusals: readonly LateRefusal[];
  /** How its invoices compare with what it was given; absent before the first look. */
  readonly invoices?: InvoiceReport;
  /** Events a second that it takes at the most, as far as is known. */
  readonly eventsPerSecond?: number;
  readonly consecutiveFailures: number;
  readonly lastSuccessAt?: number;
  /** Gone once delivery succeeds. */
  readonly lastError?: string;
  readonly lastErrorAt?: number;
}

/** What waits in the ledger for a destination. */
export interface Backlog {
  /** End of the window before the first that waits, RFC 3339; absent where that one is not known. */
  readonly windowEnd?: string;
  /** About what the ledger keeps for it. */
  readonly bytes: number;
  /** Until the volume is full, where nothing of it is sent; absent where that is not known, as in a database. */
  readonly fullInMs?: number;
}

/** Why the newest spec of a destination cannot be used. */
export interface DestinationProblem {
  /** As the condition `Ready` has it: `SecretNotFound`. */
  readonly reason: string;
  /** Without secrets. */
  readonly message: string;
  /** Whether the last good settings go on; otherwise nothing is sent. */
  readonly inForce: boolean;
}

/** A destination that there is, whether or not its settings can be used. */
export interface ExistingDestination {
  readonly name: string;
  readonly type: string;
  readonly suspend: boolean;
  /** Where its cursor begins; absent where this process does not create it: the resource is being deleted, or another process does. */
  readonly startFrom?: DestinationSettings['startFrom'];
  /** Absent when its newest spec is in force, or has not been looked at yet. */
  readonly problem?: Omit<DestinationProblem, 'inForce'>;
}

/** What the cursor alone says of a destination. */
export type CursorField = 'cursor' | 'cursorWindowEnd' | 'lagEvents' | 'lagSeconds' | 'backlog';

/**
 * Where a destination's cursor stands and how far it is behind. `oldestWindowEnd` is the end of the
 * window of the oldest event that it is still to get, where that is known.
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
