import type { UsageEvent } from '../../model/event.ts';
import type { PlanChange } from '../../model/tenant.ts';
import { formatInstant } from '../../model/window.ts';
import { isUnsent, type UnsentRanges } from './sequence-sets.ts';

/**
 * A tenant's changes of plan at one destination, as its ledger record holds them
 * (docs/explanation/delivery.md#changes-of-plan). With them the side of every event is decided once and for all. Times
 * are milliseconds since the epoch.
 */
export interface TenantChanges {
  readonly tenant: string;
  readonly pending?: PendingChange;
  /** Those that were made, the oldest first. */
  readonly made: readonly MadeChange[];
}

/** A change that is still to be made. */
export interface PendingChange {
  /** Usage whose window starts earlier goes to the old plan, before the change. All other usage waits. */
  readonly before: number;
  readonly askedAt: number;
  readonly mode: PlanChange;
  /** The plan that bills now, and the one that is wanted. */
  readonly current: string;
  readonly wanted: string;
  /** What the tenant wished for when it was asked, to tell a wish that changed from a plan that did. */
  readonly wish: string;
  /**
   * Present once the old plan has its usage: what comes later in the ledger is late for it. From then on the
   * change may have been made without the operator having heard of it.
   */
  readonly drainedTo?: number;
  /** Earlier in the ledger, and not delivered by then: they are late too. */
  readonly late?: UnsentRanges;
}

export interface MadeChange extends Pick<PendingChange, 'before' | 'late'> {
  readonly drainedTo: number;
  /** The moment from which the new plan bills; usage of its side is sent as of then where it is earlier. */
  readonly from: number;
  /** Until when late usage is still billed by the old plan. */
  readonly lateUntil?: number;
  /** Late events up to here were sent as of their own time, while that was so. */
  readonly ownTo?: number;
  /** The earliest window start of a late event that was sent as of `from`. */
  readonly earliest?: number;
}

/** What is to become of an event: sent as of a moment, or kept until the change is made. */
export type Placement =
  | {
      readonly kind: 'send';
      readonly at: number;
      /** To be written before it is sent. */
      readonly noted?: TenantChanges;
    }
  | { readonly kind: 'wait'; readonly noted?: TenantChanges };

/** What decides an event's place: where it is in the ledger, and when its window starts. */
export interface Placeable {
  readonly sequence: number;
  readonly start: number;
}

/** In what an event's place is asked for. */
export interface Attempt {
  /** It is a dead letter: then it was not delivered, wherever it is in the ledger. */
  readonly wasSetAside: boolean;
  /** It is about to be sent; otherwise it may have been. */
  readonly isSending: boolean;
  readonly now: number;
}

/**
 * Where an event belongs. Its side of every change is decided by its own window: usage that was kept for a plan
 * is sent as of the plan's beginning, which may be the very moment at which the next change is asked for.
 */
export function placementOf(
  changes: TenantChanges,
  one: Placeable,
  { wasSetAside, isSending, now }: Attempt,
): Placement {
  const { pending, made } = changes;
  const { sequence, start } = one;
  let at = start;
  /** What is known of it whatever becomes of it, and what only its being sent makes true. */
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
      // One that is sent again may never have arrived; by now only the new plan would bill it.
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

/** Whether an event is of the new side, or too late for the old one. */
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

/** The event as of another moment than its window's start. */
export function asOf(event: UsageEvent, at: number): UsageEvent {
  if (Date.parse(event.window_start) === at) return event;
  const start = formatInstant(at);
  return { ...event, window_start: start, window_end: laterText(event.window_end, start) };
}

/**
 * The earliest window start of an event that was sent as of `time` or later, if any was: what came in for a
 * plan that had ended, or while a change was made.
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

/** Events have whole seconds; one that is rounded down would be before the moment. */
function wholeSecond(ms: number): number {
  return Math.ceil(ms / 1_000) * 1_000;
}

function laterText(a: string, b: string): string {
  return Date.parse(a) >= Date.parse(b) ? a : b;
}
