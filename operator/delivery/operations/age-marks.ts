const DAY_MS = 86_400_000;
/** Usage that no invoice covers is on none for good by that age: a month, and time to invoice it. */
const UNCOVERED_MS = 40 * DAY_MS;
/** How far marks are apart: usage is found uncovered when it is 40 to 45 days old. */
const MARK_EVERY_MS = 5 * DAY_MS;

/**
 * A moment, and how much of the open usage begins before it: its age is known long after its events are deleted.
 * Milliseconds since the epoch, nano-units.
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

/** The marks of what stays open where usage before `until`, `nanos` of it, is closed. */
export function closeMarks(
  marks: readonly AgeMark[],
  until: number,
  nanos: bigint,
): readonly AgeMark[] {
  return marks
    .filter(({ at }) => at > until)
    .map(({ at, before }) => ({ at, before: before - nanos }));
}

/** The marks with another one for the usage that is open now, where the last one is five days old. */
export function markAge(marks: readonly AgeMark[], open: bigint, now: number): readonly AgeMark[] {
  if (open === 0n) return [];
  const oldest = marks.findLastIndex(({ at }) => at <= now - UNCOVERED_MS);
  const needed = marks.slice(Math.max(0, oldest));
  const last = needed.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  return now - last < MARK_EVERY_MS ? needed : [...needed, { at: now, before: open }];
}

/** The last mark before which usage is too old for an invoice that is still to come; none is later than `invoicedFrom`. */
export function agedMark(
  marks: readonly AgeMark[],
  invoicedFrom: number,
  now: number,
): AgeMark | undefined {
  const bound = Math.min(now - UNCOVERED_MS, invoicedFrom);
  const mark = marks.findLast(({ at }) => at <= bound);
  return mark?.before === 0n ? undefined : mark;
}
