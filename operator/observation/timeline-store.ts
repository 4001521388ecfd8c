import type { Arrival, Projected } from '../kubernetes/source.ts';
import { atOnce } from '../model/at-once.ts';
import { type Heard, HeardVersions } from './heard-versions.ts';
import { KeptTimelines } from './kept-timelines.ts';
import { SettledUntil } from './settled-until.ts';
import { takeOver } from './take-over.ts';
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
  /** Another process writes the journal until this one goes on from it ({@link Timelines.adopt}). */
  readonly standsBy?: boolean | undefined;
}

/** A live view of what each object was, from when to when. */
export function createTimelines<T extends Observed, S>(
  rules: TimelineRules<T, S>,
  { countClamped = () => undefined, standsBy = false }: TimelinesOptions = {},
): Timelines<T, S> {
  return new TimelineStore(rules, countClamped, standsBy ? new HeardVersions() : undefined);
}

class TimelineStore<T extends Observed, S> implements Timelines<T, S> {
  readonly #rules: TimelineRules<T, S>;
  readonly #kept = new KeptTimelines<T, S>();
  readonly #settled = new SettledUntil();
  readonly #follower: TimelineFollower<T, S>;
  /** Undefined where nobody else writes the journal. */
  #heard: HeardVersions<T, S> | undefined;

  constructor(
    rules: TimelineRules<T, S>,
    countClamped: () => void,
    heard: HeardVersions<T, S> | undefined,
  ) {
    this.#rules = rules;
    const [kept, settled] = [this.#kept, this.#settled];
    this.#follower = new TimelineFollower({ rules, kept, settled, countClamped });
    this.#heard = heard;
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

  lastChange(namespace: string): number {
    return this.#kept.index.lastChange(namespace);
  }

  late(): Iterable<Timeline<S>> {
    return this.#kept.late();
  }

  upserted(next: T, _previous: T | undefined, arrival: Arrival): void {
    const heard = { kind: 'version', view: next, arrival } as const;
    this.#hear(next, heard, () => this.#follower.see(next, arrival));
  }

  deleted(last: T, arrival: Arrival): void {
    const heard = { kind: 'deleted', view: last, arrival } as const;
    this.#hear(last, heard, () => this.#follower.delete(last, arrival));
  }

  settle(boundary: number, { namespace: only, keptFrom = boundary }: SettledPart = {}): void {
    const isSettled = this.#settled.settle(boundary, only);
    if (only === undefined) this.#heard?.settle(boundary);
    const { isNeeded = () => false } = this.#rules;
    const dropped = this.#kept.settle(isSettled, Math.min(boundary, keptFrom), isNeeded);
    for (const timeline of dropped) this.#heard?.forget(timeline);
  }

  setApart(namespace: string, settled: number): void {
    this.#settled.setApart(namespace, settled);
  }

  rejoin(namespace: string): void {
    this.#settled.rejoin(namespace);
  }

  changed(settledAt?: number): Iterable<Tracked<T, S>> {
    return this.#kept.changed(settledAt);
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

  adopt(written: Iterable<Tracked<T, S>> | undefined, settled: number, comparedAt?: number): void {
    const heard = this.#heard;
    this.#heard = undefined;
    this.#settled.adopt(settled, written !== undefined);
    takeOver({ kept: this.#kept, follower: this.#follower, heard }, written, settled, comparedAt);
  }

  discard(uids: Iterable<string>): void {
    this.#kept.unwritten.discard(uids);
  }

  forget(): void {
    for (const timeline of this.#kept.index.all()) this.#heard?.forget(timeline);
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
      const at = now();
      this.#hear(timeline, { kind: 'read', at }, () => this.#follower.readAnew(timeline, at));
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
      const heard = { kind: 'missed', known: knownUntil, listedAt } as const;
      this.#hear(timeline, heard, () => this.#follower.miss(timeline, heard));
    }
    this.#settled.notePast();
  }

  /** Takes in what is told of an object, and keeps it for as long as somebody else may not have written it. */
  #hear(object: Projected, heard: Heard<T>, takeIn: () => void): void {
    const before = this.#heard && this.#kept.index.find(object);
    const was = before && { ...before };
    takeIn();
    const timeline = this.#heard && this.#kept.index.find(object);
    if (timeline !== undefined) this.#heard?.note(timeline, heard, was);
  }
}
