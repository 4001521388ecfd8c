import type { Arrival, Projected, SourceHandler } from '../../kubernetes/source.ts';
import { atOnce } from '../../model/at-once.ts';
import { KeptTimelines, type UnwrittenTimelines } from './kept-timelines.ts';
import { SettledUntil } from './settled-until.ts';
import { TimelineFollower } from './timeline-follower.ts';
import type { Observed, SettledPart, TimelineRules, Tracked } from './timeline-rules.ts';
import type { Timeline } from './timeline.ts';

interface TimelinesOptions {
  /** Is called for each API time that was moved. */
  readonly countClamped?: (() => void) | undefined;
}

/** What each object of one kind was, from when to when. Its watch brings it up to date. */
export class Timelines<T extends Observed, S> implements SourceHandler<T> {
  readonly #rules: TimelineRules<T, S>;
  readonly #kept = new KeptTimelines<T, S>();
  readonly #settled = new SettledUntil();
  readonly #follower: TimelineFollower<T, S>;

  constructor(
    rules: TimelineRules<T, S>,
    { countClamped = () => undefined }: TimelinesOptions = {},
  ) {
    this.#rules = rules;
    const [kept, settled] = [this.#kept, this.#settled];
    this.#follower = new TimelineFollower({ rules, kept, settled, countClamped });
  }

  /** Names the kind in the journal. */
  get kind(): string {
    return this.#rules.kind;
  }

  /** What the journal does not have yet. */
  get unwritten(): UnwrittenTimelines<T, S> {
    return this.#kept.unwritten;
  }

  get size(): number {
    return this.#kept.index.size;
  }

  /** Whether it has a timeline, gone or not. */
  has(object: Projected): boolean {
    return this.#kept.index.find(object) !== undefined;
  }

  find(object: Pick<Projected, 'namespace' | 'uid'>): Timeline<S> | undefined {
    return this.#kept.index.find(object);
  }

  namespaces(): Iterable<readonly [namespace: string, timelines: Iterable<Timeline<S>>]> {
    return this.#kept.index.namespaces();
  }

  inNamespace(namespace: string): Iterable<Timeline<S>> {
    return this.#kept.index.inNamespace(namespace);
  }

  late(): Iterable<Timeline<S>> {
    return this.#kept.late();
  }

  upserted(next: T, _previous: T | undefined, arrival: Arrival): void {
    this.#follower.see(next, arrival);
  }

  deleted(last: T, arrival: Arrival): void {
    this.#follower.delete(last, arrival);
  }

  /**
   * Everything before `boundary` is billed as it stands, outside of namespaces that are apart; forgets what
   * no late fact can change any more.
   */
  settle(boundary: number, { namespace: only, keptFrom = boundary }: SettledPart = {}): void {
    const isSettled = this.#settled.settle(boundary, only);
    const isNeeded = (object: T, horizon: number): boolean =>
      this.#rules.isNeeded?.(object, horizon) ?? false;
    this.#kept.settle(isSettled, Math.min(boundary, keptFrom), isNeeded);
  }

  /** The windows of a namespace are closed apart from now on; they are closed up to `settled`. */
  setApart(namespace: string, settled: number): void {
    this.#settled.setApart(namespace, settled);
  }

  /** They are closed with the others again: both have got to the same end. */
  rejoin(namespace: string): void {
    this.#settled.rejoin(namespace);
  }

  /** Puts back the timelines of the journal; `settled` is the end of the last closed window. */
  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void {
    for (const timeline of timelines) this.#kept.add(timeline);
    this.#settled.restore(settled);
  }

  /** Forgets all there is; only for what neither a window nor the journal has made use of. */
  forget(): void {
    this.#kept.clear();
  }

  /** Follows every live object again: settings that the rules depend on have changed. */
  refresh(at: number): void {
    atOnce(this.refreshing(() => at));
  }

  /**
   * The same of one object after the other, with time for others after each. What it means now holds from the moment
   * `now` at which it is read. Those that come meanwhile are read by the settings in force anyway.
   */
  *refreshing(now: () => number): Generator<void, void> {
    let left = this.#kept.index.size;
    for (const timeline of this.#kept.index.all()) {
      if (left === 0) return;
      left -= 1;
      if (timeline.gone) continue;
      this.#follower.readAnew(timeline, now());
      yield;
    }
  }

  /**
   * The first list is in: from here on it is known what closed windows billed. What the journal knew
   * and the watch does not hold vanished unseen, and is billed until it was last known to be there;
   * it may have gone at any moment until `listedAt`. With `isListed` only that of some namespaces.
   */
  listed(
    holds: (object: Projected) => boolean,
    knownUntil: number,
    listedAt = knownUntil,
    isListed: (namespace: string) => boolean = () => true,
  ): void {
    for (const timeline of this.#kept.index.all()) {
      if (timeline.gone || !isListed(timeline.namespace) || holds(timeline)) continue;
      this.#follower.miss(timeline, { known: knownUntil, listedAt });
    }
    this.#settled.notePast();
  }
}
