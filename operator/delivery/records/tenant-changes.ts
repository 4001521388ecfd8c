import type { UsageEvent } from '../../model/event.ts';
import type { PlanChange } from '../../model/tenant.ts';
import { renamedKeys } from '../../model/renamed-keys.ts';
import { formatInstant } from '../../model/window.ts';
import { isUnsent, type UnsentRanges } from './sequence-sets.ts';

/**
 * Ledger record of a tenant's changes of plan at one destination
 * (docs/explanation/delivery.md#changes-of-plan). It assigns every event to one plan for good.
 * Times are milliseconds since the epoch.
 */
export interface TenantChanges {
  readonly tenant: string;
  readonly pending?: PendingChange;
  /** The completed changes, the oldest first. */
  readonly made: readonly MadeChange[];
}

/** A change that is not made yet. */
export interface PendingChange {
  /** Usage of windows that start earlier goes to the old plan first. All other usage waits. */
  readonly before: number;
  readonly requestedAt: number;
  readonly mode: PlanChange;
  /** The plan that bills now. */
  readonly current: string;
  /** The plan after the change. */
  readonly wanted: string;
  /** The tenant's `plan` at the request. A plan that changed elsewhere differs from a new wish. */
  readonly wish: string;
  /**
   * Last sequence number of usage in time for the old plan. Absent until the old plan has all of
   * it. Once present, the change may be made although the operator has not received the answer.
   */
  readonly drainedTo?: number;
  /** Events up to `drainedTo` that were not delivered by then. They are late too. */
  readonly late?: UnsentRanges;
}

export interface MadeChange extends Pick<PendingChange, 'before' | 'late'> {
  readonly drainedTo: number;
  /** Start of the new plan. Its earlier usage is sent as of this moment. */
  readonly from: number;
  /** Until this moment the old plan still bills late usage. */
  readonly lateUntil?: number;
  /** Late events up to here were sent as of their own time, before `lateUntil`. */
  readonly ownTo?: number;
  /** The earliest window start of a late event that was sent as of `from`. */
  readonly earliest?: number;
}

const EARLIER_NAMES = new Map([['askedAt', 'requestedAt']]);

/** Returns a stored record, also of an earlier version, with the present names of its fields. */
export function inPresentForm(stored: TenantChanges): TenantChanges {
  const { pending } = stored;
  if (pending === undefined) return stored;
  return { ...stored, pending: renamedKeys(pending, EARLIER_NAMES) as PendingChange };
}

/** The decision for an event: send it as of the moment `at`, or wait until the change is made. */
export type Placement =
  | {
      readonly kind: 'send';
      readonly at: number;
      /** Write this record before the event is sent. */
      readonly noted?: TenantChanges;
    }
  | { readonly kind: 'wait'; readonly noted?: TenantChanges };

/** An event's position in the ledger and the start of its window, milliseconds since the epoch. */
export interface Placeable {
  readonly sequence: number;
  readonly start: number;
}

/** The circumstances of a placement. */
export interface PlacementAttempt {
  /** It is a dead letter, so it was not delivered, wherever it is in the ledger. */
  readonly wasSetAside: boolean;
  /** True if it is about to be sent. False if it may have been sent. */
  readonly isSending: boolean;
  readonly now: number;
}

/**
 * Decides which plan an event belongs to. Its own window start counts, not the moment as of which
 * it is sent. For each change:
 *
 * 1. It starts at or after the change: the new plan bills it, as of the plan's start at the
 *    earliest.
 * 2. It starts earlier and was in time (up to `drainedTo`): the old plan bills it, as of its own
 *    time.
 * 3. It starts earlier and is late: until `lateUntil` the old plan bills it. Afterwards the new
 *    plan does, as of the plan's start.
 * 4. A change is pending and the event belongs to the new plan, or is late for the old one: it
 *    waits.
 */
export function placementOf(
  changes: TenantChanges,
  one: Placeable,
  { wasSetAside, isSending, now }: PlacementAttempt,
): Placement {
  const { pending, made } = changes;
  const { sequence, start } = one;
  let at = start;
  // `left` holds in any case, `sent` only if the event is sent.
  const left = new Map<number, Partial<MadeChange>>();
  const sent = new Map<number, Partial<MadeChange>>();
  for (const [index, change] of made.entries()) {
    if (start < change.before) {
      const { before, drainedTo, lateUntil = 0, ownTo = 0, late = [] } = change;
      const wasLeft = isUnsent(late, sequence);
      const isInTime = sequence <= drainedTo;
      if (isInTime && !wasLeft && !wasSetAside) break;
      if (isInTime && !wasLeft) left.set(index, { late: withOne(late, one) });
      const wasOwn = !isInTime && !wasLeft && sequence <= ownTo;
      // An event that is sent again may never have arrived. Now only the new plan would bill it.
      if (wasOwn && (now < lateUntil || !isSending)) break;
      if (!isInTime && !wasLeft && now < lateUntil) {
        sent.set(index, { ownTo: sequence });
        break;
      }
      const earliest = Math.min(start, change.earliest ?? before);
      sent.set(index, { earliest, ...(wasOwn && { late: withOne(late, one) }) });
    }
    at = Math.max(at, wholeSecond(change.from));
  }
  const isWaiting = pending !== undefined && waitsFor(pending, start, sequence, wasSetAside);
  const noted = updated(changes, isWaiting ? [left] : [left, sent]);
  if (!isWaiting) return { kind: 'send', at, noted };
  const { late = [], drainedTo = 0 } = pending;
  if (!wasSetAside || start >= pending.before || sequence > drainedTo || isUnsent(late, sequence)) {
    return { kind: 'wait', noted };
  }
  const base = noted ?? changes;
  return {
    kind: 'wait',
    noted: { ...base, pending: { ...pending, late: withOne(late, one) } },
  };
}

/** Returns whether an event belongs to the new plan, or is too late for the old one. */
function waitsFor(
  { before, drainedTo, late = [] }: PendingChange,
  start: number,
  sequence: number,
  wasSetAside: boolean,
): boolean {
  if (start >= before) return true;
  if (drainedTo === undefined) return false;
  return sequence > drainedTo || wasSetAside || isUnsent(late, sequence);
}

function updated(
  changes: TenantChanges,
  updates: readonly ReadonlyMap<number, Partial<MadeChange>>[],
): TenantChanges | undefined {
  const isNews = updates.some((update) =>
    [...update].some(([index, news]) => {
      const { earliest } = changes.made[index] ?? {};
      return news.late !== undefined || news.ownTo !== undefined || news.earliest !== earliest;
    }),
  );
  if (!isNews) return undefined;
  const made = changes.made.map((each, index) =>
    Object.assign({}, each, ...updates.map((update) => update.get(index))),
  );
  return { ...changes, made };
}

/** Returns the event with its window moved to start at `at`, milliseconds since the epoch. */
export function asOf(event: UsageEvent, at: number): UsageEvent {
  if (Date.parse(event.window_start) === at) return event;
  const start = formatInstant(at);
  return { ...event, window_start: start, window_end: laterText(event.window_end, start) };
}

/**
 * Returns the earliest window start of an event that may have been sent as of `time` or later:
 * usage that arrived for an ended plan, or during a change. `time` itself if there is none.
 */
export function reachOf({ made }: TenantChanges, time: number): number {
  let reach = time;
  for (const { before, from, earliest = before } of made) {
    if (wholeSecond(from) >= time) reach = Math.min(reach, before, earliest);
  }
  return reach;
}

function withOne(ranges: UnsentRanges, { sequence }: Placeable): UnsentRanges {
  return [...ranges, [sequence, sequence] as const].toSorted((a, b) => a[0] - b[0]);
}

/** Rounds up to whole seconds, as events have them. Rounded down, it would precede the moment. */
function wholeSecond(ms: number): number {
  return Math.ceil(ms / 1_000) * 1_000;
}

function laterText(a: string, b: string): string {
  return Date.parse(a) >= Date.parse(b) ? a : b;
}
