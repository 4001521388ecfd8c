import type { Arrival, Projected } from '../kubernetes/source.ts';
import { atOnce } from '../model/at-once.ts';
import { KeptTimelines } from './kept-timelines.ts';
import { SettledUntil } from './settled-until.ts';
import { TimelineFollower } from './timeline-follower.ts';
import type { Timeline } from './timeline.ts';
import type {
  Drained,
  Observed,
  SettledPart,
  TimelineRules,
  Timelines,
  Tracked,
} from './timelines.ts';

export interface TimelinesOptions {
  /** Is told of API times that were moved. */
  readonly countClamped?: (() => void) | undefined;
}

/** A live view of what each object was, from when to when. */
export function createTimelines<T extends Observed, S>(
  rules: TimelineRules<T, S>,
  { countClamped = () => undefined }: TimelinesOptions = {},
): Timelines<T, S> {
  return new TimelineStore(rules, countClamped);
}

class TimelineStore<T extends Observed, S> implements Timelines<T, S> {
  readonly #rules: TimelineRules<T, S>;
  readonly #kept = new KeptTimelines<T, S>();
  readonly #settled = new SettledUntil();
  readonly #follower: TimelineFollower<T, S>;

  constructor(rules: TimelineRules<T, S>, countClamped: () => void) {
    this.#rules = rules;
    const [kept, settled] = [this.#kept, this.#settled];
    this.#follower = new TimelineFollower({ rules, kept, settled, countClamped });
  }

  get kind(): string {
    return this.#rules.kind;
  }

  get size(): number {
    return this.#kept.index.size;
  }

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

  settle(boundary: number, { namespace: only, keptFrom = boundary }: SettledPart = {}): void {
    const isSettled = this.#settled.settle(boundary, only);
    const { isNeeded = () => false } = this.#rules;
    this.#kept.settle(isSettled, Math.min(boundary, keptFrom), isNeeded);
  }

  setApart(namespace: string, settled: number): void {
    this.#settled.setApart(namespace, settled);
  }

  rejoin(namespace: string): void {
    this.#settled.rejoin(namespace);
  }

  drain(limit?: number): Drained<T, S> {
    return this.#kept.unwritten.drain(limit);
  }

  putBack(drained: Drained<T, S>): void {
    const { index, unwritten } = this.#kept;
    unwritten.putBack(drained, (timeline) => index.find(timeline) === timeline);
  }

  restore(timelines: Iterable<Tracked<T, S>>, settled: number): void {
    for (const timeline of timelines) this.#kept.add(timeline);
    this.#settled.restore(settled);
  }

  discard(uids: Iterable<string>): void {
    this.#kept.unwritten.discard(uids);
  }

  forget(): void {
    this.#kept.clear();
  }

  refresh(at: number): void {
    atOnce(this.refreshing(() => at));
  }

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
