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
import { beganWith, type LivePart, type LiveUsage } from './live-usage.ts';
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
  readonly #state: ScopeState;
  readonly #window: Window;
  readonly #whole: Measuring;
  /** Of the last millisecond, which tells what each further one adds. */
  readonly #last: Measuring;
  /** The one that is measured. */
  #pods: readonly Timeline<PodState>[] = [];
  /** Closed windows may have to be put right for pods that have not changed themselves. */
  readonly #isPastOpen: boolean;

  constructor(state: ScopeState, nodeAt: NodeLookup, settings: Settings, now: number) {
    const { scope, progress, learntUntil } = state;
    const { end: start, sizeMs, meteredFrom } = progress;
    // Before the first window, or when the clock was set back, nothing of it has gone on yet.
    const end = Math.max(now, start + 1);
    this.#state = state;
    this.#window = { start, end };
    const { tenantClusters, nodes } = scope.observation;
    const observation = { ...scope.observation, pods: this.#oneOf(scope.observation.pods) };
    const size = { start, end: start + sizeMs };
    const common = { observation, learntUntil, settings: meterSettings(settings, size) };
    const measuring = (window: Window, from: number): Measuring => {
      const [tally, findings] = [createTally(), createFindings()];
      const input = { ...common, meteredFrom: from, window, tally, findings };
      return { tally, meter: createPodMeter(input, nodeAt) };
    };
    this.#whole = measuring(this.#window, meteredFrom);
    this.#last = measuring({ start: end - 1, end }, end - 1);
    this.#isPastOpen = tenantClusters.sequence > learntUntil || [...nodes.late()].length > 0;
  }

  /** What cannot be measured counts for nothing: it is not billed either until its window can be closed. */
  measure(timeline: Timeline<PodState>): LivePart {
    const isMeasured = this.#take(timeline);
    const usage = this.#drain();
    const { scope } = this.#state;
    return {
      scope: scope.name,
      windowStart: this.#window.start,
      usage: isMeasured ? usage : [],
    };
  }

  #take(timeline: Timeline<PodState>): boolean {
    this.#pods = [timeline];
    try {
      this.#whole.meter.measure(timeline);
      const isLate = this.#isPastOpen || timeline.billed !== undefined;
      if (isLate) atOnce(this.#whole.meter.measurePast());
      this.#last.meter.measure(timeline);
      return true;
    } catch {
      return false;
    }
  }

  /** What has been charged since the last call; the charges are those of the next pod as well. */
  #drain(): readonly LiveUsage[] {
    const rates = new Map<string, bigint>();
    for (const charge of this.#last.tally.charges()) {
      if (charge.amount !== 0n) rates.set(charge.key, charge.amount);
      charge.amount = 0n;
    }
    const usage: LiveUsage[] = [];
    for (const charge of this.#whole.tally.charges()) {
      const { identity, key } = charge;
      const amount = charge.amount + charge.carried;
      const rate = rates.get(key) ?? 0n;
      charge.amount = 0n;
      charge.carried = 0n;
      if (amount === 0n && rate === 0n) continue;
      usage.push({ identity, key, began: beganWith(amount, rate, this.#window), rate });
    }
    return usage;
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
