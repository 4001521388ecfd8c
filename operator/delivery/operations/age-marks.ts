const DAY_MS = 86_400_000;
/** Age at which uncovered usage counts as never invoiced: a month, and time to invoice it. */
const UNCOVERED_MS = 40 * DAY_MS;
/** Distance between marks. Usage is found uncovered at an age of 40 to 45 days. */
const MARK_EVERY_MS = 5 * DAY_MS;

/**
 * A moment (milliseconds since the epoch) and the open usage that begins before it (nano-units).
 * Marks give the age of usage whose events are deleted.
 */
export interface AgeMark {
  readonly at: number;
  readonly before: bigint;
}

/** Adds usage that begins at a moment. */
export function addToMarks(
  marks: readonly AgeMark[],
  at: number,
  nanos: bigint,
): readonly AgeMark[] {
  return marks.map((mark) => (at < mark.at ? { ...mark, before: mark.before + nanos } : mark));
}

/** Returns the marks of usage that stays open once `nanos` of usage before `until` is closed. */
export function closeMarks(
  marks: readonly AgeMark[],
  until: number,
  nanos: bigint,
): readonly AgeMark[] {
  return marks
    .filter(({ at }) => at > until)
    .map(({ at, before }) => ({ at, before: before - nanos }));
}

/** Marks the usage that is open now, at most every five days. Drops unneeded marks. */
export function markAge(marks: readonly AgeMark[], open: bigint, now: number): readonly AgeMark[] {
  if (open === 0n) return [];
  const oldest = marks.findLastIndex(({ at }) => at <= now - UNCOVERED_MS);
  const needed = marks.slice(Math.max(0, oldest));
  const last = needed.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  return now - last < MARK_EVERY_MS ? needed : [...needed, { at: now, before: open }];
}

/**
 * Returns the last mark whose usage is too old for any coming invoice, at most `invoicedFrom`.
 * Undefined if there is no such usage.
 */
export function agedMark(
  marks: readonly AgeMark[],
  invoicedFrom: number,
  now: number,
): AgeMark | undefined {
  const bound = Math.min(now - UNCOVERED_MS, invoicedFrom);
  const mark = marks.findLast(({ at }) => at <= bound);
  return mark?.before === 0n ? undefined : mark;
}
