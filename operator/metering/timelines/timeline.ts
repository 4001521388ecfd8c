import { least } from '../../model/extremes.ts';
import type { Bracket } from '../../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';

/**
 * A stretch of time `[from, to)` in which the billing state of an object did not change. Milliseconds
 * since the epoch; `to` is `Infinity` while the state holds.
 */
export interface Span<S> {
  readonly from: number;
  readonly to: number;
  readonly state: S;
  /**
   * How much earlier it may have begun, and how much later ended, where nobody saw that; milliseconds
   * (docs/explanation/gaps.md#changes-that-nobody-saw).
   */
  readonly unsureFrom?: number;
  readonly unsureTo?: number;
}

/**
 * What one watched object was, from when to when (docs/explanation/metering.md#lifetimes-not-samples). Spans are
 * in order and never overlap; where there is none the object cost nothing. The span list is replaced,
 * never changed in place.
 */
export interface Timeline<S> {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  spans: readonly Span<S>[];
  /** Arrival of the newest version of the object; the lower bound for what the next one claims. */
  versionAt: number;
  /** It will never cost anything again, whatever its object says later. */
  finished: boolean;
  /** The object is gone: the timeline is kept only until nothing can change what it was billed. */
  gone: boolean;
  /**
   * The spans as closed windows billed them, kept from the first change to reach back before the
   * last closed window until the difference is carried into the next one (docs/explanation/metering.md#late-facts).
   */
  billed: readonly Span<S>[] | undefined;
  /** Changed since the journal was last written. */
  dirty: boolean;
}

/**
 * How far off the ends of a stretch of a span may be that nobody saw, milliseconds: the larger of both, and of
 * those only that are the span's own.
 */
export function uncertainOf(
  {
    from,
    to,
    unsureFrom: uncertainFrom = 0,
    unsureTo: uncertainTo = 0,
  }: Omit<Span<unknown>, 'state'>,
  start: number,
  end: number,
): number {
  return Math.max(start === from ? uncertainFrom : 0, end === to ? uncertainTo : 0);
}

/** The state that holds until further notice; undefined when the object costs nothing. */
export function currentState<S>(timeline: Timeline<S>): S | undefined {
  const last = timeline.spans.at(-1);
  return last !== undefined && last.to === Infinity ? last.state : undefined;
}

/**
 * From `at` on the object is in `state`, or costs nothing; what was noted after `at` is undone. `unsure`
 * is how far off that moment may be, milliseconds.
 */
export function enter<S>(
  timeline: Timeline<S>,
  state: S | undefined,
  at: number,
  uncertain = 0,
): void {
  const stored = uncertainAt(spansBefore(timeline.spans, at), at, uncertain);
  const next = { from: at, to: Infinity, state, ...(uncertain > 0 && { unsureFrom: uncertain }) };
  timeline.spans =
    next.state === undefined ? stored : joined(stored, { ...next, state: next.state });
  timeline.dirty = true;
}

/** The spans, of which the one that ends at `at` may have ended that much later. */
function uncertainAt<S>(
  spans: readonly Span<S>[],
  at: number,
  uncertainTo: number,
): readonly Span<S>[] {
  const last = spans.at(-1);
  if (uncertainTo <= 0 || last === undefined || last.to !== at) return spans;
  return [...spans.slice(0, -1), { ...last, unsureTo: uncertainTo }];
}

/** The spans up to `at`, the one that holds at `at` cut there. */
export function spansBefore<S>(spans: readonly Span<S>[], at: number): readonly Span<S>[] {
  const last = spans.at(-1);
  if (last === undefined || last.to <= at) return spans;
  return spans
    .filter((span) => span.from < at)
    .map((span) => (span.to <= at ? span : endedAt(span, at)));
}

/** Where it ends is known now. */
function endedAt<S>({ from, state, unsureFrom: uncertainFrom }: Span<S>, to: number): Span<S> {
  return { from, to, state, unsureFrom: uncertainFrom };
}

/** The spans that reach beyond `at`, whole. */
export function spansAfter<S>(spans: readonly Span<S>[], at: number): readonly Span<S>[] {
  const [first] = spans;
  if (first === undefined || first.to > at) return spans;
  const index = spans.findIndex((span) => span.to > at);
  return index === -1 ? [] : spans.slice(index);
}

/** A change that throws has changed nothing: what closed windows billed of it is compared with later. */
export function wholly<S>(timeline: Timeline<S>, change: () => void): void {
  const { spans, finished } = timeline;
  try {
    change();
  } catch (error) {
    timeline.spans = spans;
    timeline.finished = finished;
    throw error;
  }
}

/** True when both say the same of the time before `at`. */
export function agreeBefore<S>(a: readonly Span<S>[], b: readonly Span<S>[], at: number): boolean {
  const left = spansBefore(a, at);
  const right = spansBefore(b, at);
  if (left.length !== right.length) return false;
  return left.every((span, index) => {
    const other = right[index];
    return (
      other !== undefined &&
      span.from === other.from &&
      span.to === other.to &&
      Object.is(span.state, other.state)
    );
  });
}

/**
 * A span that continues the one before it in the same state becomes one with it. There are hundreds of thousands of
 * such lists: they are made at their exact size, which lists that are filled one by one are not.
 */
function joined<S>(spans: readonly Span<S>[], next: Span<S>): readonly Span<S>[] {
  const last = spans.at(-1);
  if (last === undefined || last.state !== next.state || last.to < next.from) {
    return spans.concat(next);
  }
  return spans.with(spans.length - 1, endedAt(last, next.to));
}

/** The stretches of `[from, to)` within which none of the parts begins or ends, in order. */
export function splitAtEdges(
  from: number,
  to: number,
  parts: readonly { readonly from: number; readonly to: number }[],
): readonly (readonly [from: number, to: number])[] {
  const edges = parts.flatMap((part) => [part.from, part.to]);
  const inside = edges.filter((edge) => edge > from && edge < to);
  const cuts = [from, ...new Set(inside.toSorted((a, b) => a - b))];
  return cuts.map((cut, index) => [cut, cuts[index + 1] ?? to]);
}

/** What an object that is held, rather than run, says of itself in one version. */
export interface Holding<S> {
  /** Undefined while it costs nothing. */
  readonly state: S | undefined;
  /** When the state began, where the API says so. */
  readonly since?: number;
  readonly createdAt: number;
}

/**
 * The object has changed to `state`, at a moment of the bracket: meanwhile it was no more than `leastWith` gives
 * of what it was before, which costs no more than that nor than `state`; undefined where no such state is
 * known. Of changes that nobody saw the brackets may overlap, so that what it was before may be several states.
 */
export function change<S>(
  timeline: Timeline<S>,
  state: S,
  { from, until }: Bracket,
  leastWith: (before: S) => S | undefined,
): void {
  const before = timeline.spans.filter((span) => span.to > from && span.from < until);
  // Together with what may have happened as late they may have lasted that much longer.
  const earliest = least([
    from,
    ...before.filter((span) => span.from > from).map((span) => span.from - (span.unsureFrom ?? 0)),
    ...timeline.spans.filter((span) => span.to + (span.unsureTo ?? 0) > from).map(({ to }) => to),
  ]);
  for (const [index, span] of before.entries()) {
    enter(timeline, leastWith(span.state), Math.max(span.from, from), until - earliest);
    if (span.to < (before[index + 1]?.from ?? until)) enter(timeline, undefined, span.to);
  }
  if (currentState(timeline) !== state) enter(timeline, state, until, until - earliest);
}

/** Milliseconds. */
export function widthOf({ from, until }: Bracket): number {
  return until - from;
}

/** How states of one kind compare. */
export interface Comparing<S> {
  readonly isSame: (a: S, b: S) => boolean;
  /** What costs no more than either; undefined where that is nothing. */
  readonly least: (a: S, b: S) => S | undefined;
}

/**
 * Follows load balancers, workloads and volumes: the state changes when its change comes about. One that is first seen on a list, with its state already there, is taken to have had it since
 * its creation, for nothing on the object tells a later moment.
 */
export function followHolding<S>(
  timeline: Timeline<S>,
  { state, since, createdAt }: Holding<S>,
  seen: Sighting,
  { isSame, least: leastOf }: Comparing<S>,
): void {
  const current = currentState(timeline);
  if (current === state) return;
  if (current !== undefined && state !== undefined) {
    if (isSame(current, state)) return;
    change(timeline, state, seen, (before) => leastOf(before, state));
    return;
  }
  if (state === undefined) {
    enter(timeline, undefined, seen.from, widthOf(seen));
    return;
  }
  const dated = since ?? (seen.first && seen.late ? createdAt : undefined);
  const uncertain = dated === undefined ? widthOf(seen) : 0;
  enter(timeline, state, seen.trust(dated ?? seen.until), uncertain);
}
