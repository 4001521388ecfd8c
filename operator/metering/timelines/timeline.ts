import { least } from '../../model/extremes.ts';
import type { Bracket } from '../../kubernetes/source.ts';
import type { Sighting } from './sighting.ts';

/**
 * A stretch of time `[from, to)` in which the billing state of an object did not change.
 * Milliseconds since the epoch; `to` is `Infinity` while the state lasts.
 */
export interface Span<S> {
  readonly from: number;
  readonly to: number;
  readonly state: S;
  /**
   * How much earlier it may have begun, and how much later ended, where nobody observed it;
   * milliseconds (docs/explanation/gaps.md#changes-that-nobody-saw).
   */
  readonly uncertainFrom?: number;
  readonly uncertainTo?: number;
}

/**
 * The billing states of one watched object over time
 * (docs/explanation/metering.md#lifetimes-not-samples). Spans are in order and never overlap;
 * between them the object costs nothing. The list is replaced, never changed in place.
 */
export interface Timeline<S> {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  spans: readonly Span<S>[];
  /** Arrival of the newest version of the object: the lower bound for the times of the next one. */
  versionAt: number;
  /** It will never cost anything again, whatever its object reports later. */
  finished: boolean;
  /** The object is gone: the timeline is stored until nothing can change what it was billed. */
  gone: boolean;
  /**
   * The spans as closed windows billed them. Set by a change that reaches back before the last
   * closed window, until the difference is carried into the next window
   * (docs/explanation/metering.md#late-facts).
   */
  billed: readonly Span<S>[] | undefined;
  /** Changed since the journal was last written. */
  dirty: boolean;
}

/**
 * Returns the uncertainty of a stretch `[start, end)` of a span, milliseconds: the larger of its
 * two ends, of which only those of the span itself count.
 */
export function uncertainOf(
  { from, to, uncertainFrom = 0, uncertainTo = 0 }: Omit<Span<unknown>, 'state'>,
  start: number,
  end: number,
): number {
  return Math.max(start === from ? uncertainFrom : 0, end === to ? uncertainTo : 0);
}

/** Returns the current state; undefined while the object costs nothing. */
export function currentState<S>(timeline: Timeline<S>): S | undefined {
  const last = timeline.spans.at(-1);
  return last !== undefined && last.to === Infinity ? last.state : undefined;
}

/**
 * Sets the state from `at` on, or nothing; states after `at` are removed. `uncertain` is how far
 * off that moment may be, milliseconds.
 */
export function enter<S>(
  timeline: Timeline<S>,
  state: S | undefined,
  at: number,
  uncertain = 0,
): void {
  const before = uncertainAt(spansBefore(timeline.spans, at), at, uncertain);
  const next = {
    from: at,
    to: Infinity,
    state,
    ...(uncertain > 0 && { uncertainFrom: uncertain }),
  };
  timeline.spans =
    next.state === undefined ? before : joined(before, { ...next, state: next.state });
  timeline.dirty = true;
}

/** Returns the spans; the one that ends at `at` may have ended later by `uncertainTo`. */
function uncertainAt<S>(
  spans: readonly Span<S>[],
  at: number,
  uncertainTo: number,
): readonly Span<S>[] {
  const last = spans.at(-1);
  if (uncertainTo <= 0 || last === undefined || last.to !== at) return spans;
  return [...spans.slice(0, -1), { ...last, uncertainTo }];
}

/** Returns the spans up to `at`, the last one cut there. */
export function spansBefore<S>(spans: readonly Span<S>[], at: number): readonly Span<S>[] {
  const last = spans.at(-1);
  if (last === undefined || last.to <= at) return spans;
  return spans
    .filter((span) => span.from < at)
    .map((span) => (span.to <= at ? span : endedAt(span, at)));
}

function endedAt<S>({ from, state, uncertainFrom }: Span<S>, to: number): Span<S> {
  return { from, to, state, uncertainFrom };
}

/** Returns the spans that reach beyond `at`, uncut. */
export function spansAfter<S>(spans: readonly Span<S>[], at: number): readonly Span<S>[] {
  const [first] = spans;
  if (first === undefined || first.to > at) return spans;
  const index = spans.findIndex((span) => span.to > at);
  return index === -1 ? [] : spans.slice(index);
}

/** Runs a change and undoes it if it throws: spans are later compared with what was billed. */
export function atomically<S>(timeline: Timeline<S>, change: () => void): void {
  const { spans, finished } = timeline;
  try {
    change();
  } catch (error) {
    timeline.spans = spans;
    timeline.finished = finished;
    throw error;
  }
}

/** True when both have the same spans before `at`. */
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
 * Appends a span, or extends the last one if it continues the same state. There are hundreds of
 * thousands of such lists, so they are made at their exact size instead of grown.
 */
function joined<S>(spans: readonly Span<S>[], next: Span<S>): readonly Span<S>[] {
  const last = spans.at(-1);
  if (last === undefined || last.state !== next.state || last.to < next.from) {
    return spans.concat(next);
  }
  return spans.with(spans.length - 1, endedAt(last, next.to));
}

/** Splits `[from, to)` where any of the parts begins or ends; returns the stretches in order. */
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

/** The state in one version of an object that is kept rather than run, such as a volume. */
export interface RetainedVersion<S> {
  /** Undefined while it costs nothing. */
  readonly state: S | undefined;
  /** When the state began; absent where the API has no time. */
  readonly since?: number;
  readonly createdAt: number;
}

/**
 * Changes the state at an unknown moment of the bracket.
 * 1. Before the bracket the old state counts, after it the new one.
 * 2. Within the bracket the result of `leastWith` counts, which costs no more than either;
 *    undefined is nothing.
 * 3. Brackets of several unobserved changes may overlap, so several states can precede.
 */
export function change<S>(
  timeline: Timeline<S>,
  state: S,
  { from, until }: Bracket,
  leastWith: (before: S) => S | undefined,
): void {
  const before = timeline.spans.filter((span) => span.to > from && span.from < until);
  // Earlier changes of the same bracket widen the uncertainty.
  const earliest = least([
    from,
    ...before
      .filter((span) => span.from > from)
      .map((span) => span.from - (span.uncertainFrom ?? 0)),
    ...timeline.spans
      .filter((span) => span.to + (span.uncertainTo ?? 0) > from)
      .map(({ to }) => to),
  ]);
  for (const [index, span] of before.entries()) {
    enter(timeline, leastWith(span.state), Math.max(span.from, from), until - earliest);
    if (span.to < (before[index + 1]?.from ?? until)) enter(timeline, undefined, span.to);
  }
  if (currentState(timeline) !== state) enter(timeline, state, until, until - earliest);
}

/** Width of a bracket, milliseconds. */
export function widthOf({ from, until }: Bracket): number {
  return until - from;
}

/** Compares states of one kind. */
export interface StateComparison<S> {
  readonly isSame: (a: S, b: S) => boolean;
  /** Returns a state that costs no more than either; undefined where that is nothing. */
  readonly least: (a: S, b: S) => S | undefined;
}

/**
 * Follows load balancers, workloads, volumes, claims and slices: the state changes when its change
 * happened. An object that a list shows first, already in this state, counts since its creation:
 * nothing on it has a later time.
 */
export function followRetained<S>(
  timeline: Timeline<S>,
  { state, since, createdAt }: RetainedVersion<S>,
  seen: Sighting,
  { isSame, least: leastOf }: StateComparison<S>,
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
