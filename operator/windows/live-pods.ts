import type { Settings } from '../config/settings.ts';
import { createPodMeter, type PodMeter } from '../metering/cpu-memory.ts';
import { createFindings } from '../metering/findings.ts';
import type { NodeLookup } from '../metering/node-owners.ts';
import { createTally, type Tally } from '../metering/tally.ts';
import { atOnce } from '../model/at-once.ts';
import type { Window } from '../model/window.ts';
import { seenTimelines } from '../observation/seen-timelines.ts';
import type { PodState, PodView } from '../observation/pod.ts';
import type { Timeline } from '../observation/timeline.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { LiveStretch } from './live-stretch.ts';
import { type Charged, linesOf, type LivePart } from './live-usage.ts';
import { meterSettings } from './measure-scope.ts';
import type { ScopeState } from './scope.ts';

interface Measuring {
  readonly tally: Tally;
  readonly meter: PodMeter;
}

/**
 * Measures what goes on of CPU and memory of one pod after the other, each by itself, as their window will be. All of it
 * is of one moment: make another for what is measured later.
 */
export class LivePods {
  readonly #scope: string;
  readonly #stretch: LiveStretch;
  readonly #whole: Measuring;
  /** Of the next millisecond, which is as each further one: what has changed by now is in it. */
  readonly #next: Measuring;
  /** The one that is measured. */
  #pods: readonly Timeline<PodState>[] = [];
  /** Closed windows may have to be put right for pods that have not changed themselves. */
  readonly #isPastOpen: boolean;

  constructor(
    { scope, learntUntil }: ScopeState,
    stretch: LiveStretch,
    nodeAt: NodeLookup,
    settings: Settings,
  ) {
    const { window, sizeMs, meteredFrom } = stretch;
    const { start, end } = window;
    this.#scope = scope.name;
    this.#stretch = stretch;
    const { tenantClusters, nodes } = scope.observation;
    const observation = { ...scope.observation, pods: this.#oneOf(scope.observation.pods) };
    const size = { start, end: start + sizeMs };
    const common = { observation, learntUntil, settings: meterSettings(settings, size) };
    const measuring = (within: Window, from: number): Measuring => {
      const [tally, findings] = [createTally(), createFindings()];
      const input = { ...common, meteredFrom: from, window: within, tally, findings };
      return { tally, meter: createPodMeter(input, nodeAt) };
    };
    this.#whole = measuring(window, meteredFrom);
    this.#next = measuring({ start: end, end: end + 1 }, end);
    this.#isPastOpen = tenantClusters.sequence > learntUntil || [...nodes.late()].length > 0;
  }

  /** What cannot be measured counts for nothing: it is not billed either until its window can be closed. */
  measure(timeline: Timeline<PodState>): LivePart {
    const isMeasured = this.#take(timeline);
    const { window } = this.#stretch;
    const usage = linesOf(window, drained(this.#whole.tally), drained(this.#next.tally));
    return { ...this.nothing(), usage: isMeasured ? usage : [] };
  }

  /** What a pod comes to that is not there. */
  nothing(): LivePart {
    const { window, isLate } = this.#stretch;
    return { scope: this.#scope, windowStart: window.start, isLate, usage: [] };
  }

  #take(timeline: Timeline<PodState>): boolean {
    this.#pods = [timeline];
    try {
      this.#whole.meter.measure(timeline);
      const isLate = this.#isPastOpen || timeline.billed !== undefined;
      if (isLate) atOnce(this.#whole.meter.measurePast());
      this.#next.meter.measure(timeline);
      return true;
    } catch {
      return false;
    }
  }

  #oneOf(pods: Timelines<PodView, PodState>): Timelines<PodView, PodState> {
    return {
      ...seenTimelines(pods, () => true),
      namespaces: () => this.#pods.map((timeline) => [timeline.namespace, [timeline]] as const),
      inNamespace: (name) => this.#pods.filter(({ namespace }) => namespace === name),
      late: () => this.#pods.filter(({ billed }) => billed !== undefined),
    };
  }
}

/** What has been charged since the last call; the charges are those of the next pod as well. */
function drained(tally: Tally): ReadonlyMap<string, Charged> {
  const charged = new Map<string, Charged>();
  for (const charge of tally.charges()) {
    const amount = charge.amount + charge.carried;
    charge.amount = 0n;
    charge.carried = 0n;
    if (amount !== 0n) charged.set(charge.key, { identity: charge.identity, amount });
  }
  return charged;
}
