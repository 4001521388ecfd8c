import type { Settings } from '../config/settings.ts';
import { createFindings } from '../metering/findings.ts';
import type { Meter } from '../metering/meter.ts';
import { type Charge, type ChargeIdentity, createTally } from '../metering/tally.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import { atOnce } from '../model/at-once.ts';
import type { Window } from '../model/window.ts';
import type { Projected } from '../kubernetes/source.ts';
import type { Observation } from '../observation/observation.ts';
import { observationOf } from '../observation/seen-timelines.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { Clock } from '../telemetry/clock.ts';
import { LiveGrounds, type Unseen } from './live-grounds.ts';
import { LiveNodes } from './live-nodes.ts';
import { LivePods } from './live-pods.ts';
import { meterSettings } from './measure-scope.ts';
import type { ScopeName, ScopeState } from './scope.ts';

/**
 * What goes on of one charge, as a straight line: at a moment it has come to `began` + `rate` × milliseconds since its
 * window began; nano-units × milliseconds.
 */
export interface LiveUsage {
  readonly identity: ChargeIdentity;
  /** One text for an identity; equal identities have equal texts. */
  readonly key: string;
  /** Below zero where it began later, or where closed windows had too much. */
  readonly began: bigint;
  /** What each millisecond adds if nothing changes. */
  readonly rate: bigint;
}

/** What is measured by itself, and is in no closed window yet. */
export interface LivePart {
  /** The scope that it is measured with. */
  readonly scope: string;
  /** The end of the last closed window, milliseconds since the epoch. */
  readonly windowStart: number;
  readonly usage: readonly LiveUsage[];
}

/** What goes on since windows were closed, measured as they will be (docs/budgets.md#what-counts). Asking changes nothing. */
export interface LiveView {
  /**
   * CPU and memory of each of some pods of a namespace by itself, of all that there are where none are named; those that
   * nobody knows are left out. Undefined while they have not been listed.
   */
  pods(
    namespace: string,
    uids?: Iterable<string>,
  ): Iterable<readonly [uid: string, part: LivePart]> | undefined;
  /** Everything else in a namespace, by kind: it takes as long as there is. Undefined while some of it has not been listed. */
  others(namespace: string): readonly LivePart[] | undefined;
  /** While it is the same, {@link others} only come to more with time. */
  othersMark(namespace: string): string;
  /**
   * What of some namespaces may come out otherwise than at the last call without a change of its own, as where a node has
   * become another. It takes as long as there are namespaces only where anything has.
   */
  unseen(namespaces: Iterable<string>): Unseen;
}

export interface LiveOptions {
  readonly observation: Observation;
  /** The scopes of this cluster, those of namespaces that are apart included. */
  readonly states: () => readonly ScopeState[];
  readonly settings: () => Settings;
  readonly clock: Pick<Clock, 'now'>;
}

/** What is in no namespace is measured when its window is closed, for all together. */
const OF_NODES: ReadonlySet<Meter> = new Set([meterWholeNodes, balanceGpus]);

/** Timelines, as far as it is asked whether there are any, and whether they have changed. */
interface Changing {
  inNamespace(namespace: string): Iterable<unknown>;
  lastChange(namespace: string): number;
}

/** The timelines in namespaces that kinds of usage are measured out of, but for CPU and memory of pods. */
const OTHERS: Readonly<
  Record<Exclude<ScopeName, 'pods'>, (observation: Observation) => readonly Changing[]>
> = {
  gpus: ({ gpuPods, resourceClaims }) => [gpuPods, resourceClaims],
  volumes: ({ volumes }) => [volumes],
  'load-balancers': ({ loadBalancers }) => [loadBalancers],
  workloads: ({ workloads }) => [workloads],
};
const OTHER_KINDS = ['gpus', 'volumes', 'load-balancers', 'workloads'] as const;

export function createLiveView(options: LiveOptions): LiveView {
  return new LiveMeter(options);
}

class LiveMeter implements LiveView {
  readonly #options: LiveOptions;
  readonly #nodes: LiveNodes;
  readonly #grounds: LiveGrounds;

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#nodes = new LiveNodes(options.observation);
    this.#grounds = new LiveGrounds({ ...options, nodes: this.#nodes });
  }

  pods(
    namespace: string,
    uids?: Iterable<string>,
  ): Iterable<readonly [uid: string, part: LivePart]> | undefined {
    const { settings, clock } = this.#options;
    const state = this.#stateOf('pods', namespace);
    if (state?.listed !== true) return undefined;
    const { pods } = state.scope.observation;
    const timelines =
      uids === undefined
        ? [...pods.inNamespace(namespace)]
        : [...uids].flatMap((uid) => pods.find({ namespace, uid }) ?? []);
    if (timelines.length === 0) return [];
    const nodeAt = this.#nodes.lookup(settings());
    const live = new LivePods(state, nodeAt, settings(), clock.now());
    return timelines.map((timeline) => [timeline.uid, live.measure(timeline)] as const);
  }

  others(namespace: string): readonly LivePart[] | undefined {
    const { settings, clock, observation } = this.#options;
    const states = OTHER_KINDS.flatMap((kind) => {
      const state = this.#stateOf(kind, namespace);
      return state === undefined ? [] : [{ kind, state }];
    });
    if (!states.every(({ state }) => state.listed)) return undefined;
    return states.map(({ kind, state }) => {
      const isEmpty = OTHERS[kind](observation).every((each) => !holdsAny(each, namespace));
      if (!isEmpty) return measure(state, namespace, settings(), clock.now());
      return { scope: state.scope.name, windowStart: state.progress.end, usage: [] };
    });
  }

  othersMark(namespace: string): string {
    const { observation } = this.#options;
    const { gpuNodes, resourceSlices } = observation;
    const own = OTHER_KINDS.flatMap((kind) =>
      OTHERS[kind](observation).map((each) => each.lastChange(namespace)),
    );
    const holdsGpus = OTHERS.gpus(observation).some((each) => holdsAny(each, namespace));
    const shared = holdsGpus ? [gpuNodes, resourceSlices].map((each) => each.lastChange('')) : [];
    return [...own, ...shared].join();
  }

  unseen(namespaces: Iterable<string>): Unseen {
    return this.#grounds.unseen(namespaces);
  }

  /** The scope that the windows of a kind are closed with in a namespace. */
  #stateOf(kind: ScopeName, namespace: string): ScopeState | undefined {
    const states = this.#options.states();
    const apart = `${kind}/${namespace}`;
    return (
      states.find(({ scope }) => scope.name === apart) ??
      states.find(({ scope }) => scope.name === kind)
    );
  }
}

/** What a line that comes to `amount` at the end of a stretch began with. */
export function beganWith(amount: bigint, rate: bigint, { start, end }: Window): bigint {
  return amount - rate * BigInt(end - start);
}

function holdsAny(timelines: Changing, namespace: string): boolean {
  const [first] = timelines.inNamespace(namespace);
  return first !== undefined;
}

function measure(
  { scope, progress, learntUntil }: ScopeState,
  namespace: string,
  settings: Settings,
  now: number,
): LivePart {
  const { end: windowStart, sizeMs, meteredFrom } = progress;
  const end = Math.max(now, windowStart + 1);
  const observation = within(scope.observation, namespace);
  const size = { start: windowStart, end: windowStart + sizeMs };
  const common = { observation, learntUntil, settings: meterSettings(settings, size) };
  const meters = scope.meters.filter((meter) => !OF_NODES.has(meter));
  const charges = (window: Window, from: number): ReadonlyMap<string, Charge> => {
    const [tally, findings] = [createTally(), createFindings()];
    const input = { ...common, meteredFrom: from, window, tally, findings };
    for (const meter of meters) atOnce(meter(input));
    return new Map([...tally.charges()].map((one) => [one.key, one] as const));
  };
  const window = { start: windowStart, end };
  const last = charges({ start: end - 1, end }, end - 1);
  const usage = [...charges(window, meteredFrom)].map(
    ([key, { identity, amount, carried }]): LiveUsage => {
      const rate = last.get(key)?.amount ?? 0n;
      return { identity, key, began: beganWith(amount + carried, rate, window), rate };
    },
  );
  return { scope: scope.name, windowStart, usage };
}

/** The same observation with the objects of one namespace; others are not even looked at. */
function within(observation: Observation, namespace: string): Observation {
  const seen = observationOf(observation, (each) => each === namespace);
  const only = <T extends Projected, S>(timelines: Timelines<T, S>): Timelines<T, S> => ({
    ...timelines,
    namespaces: () => [[namespace, timelines.inNamespace(namespace)]],
  });
  return {
    ...seen,
    pods: only(seen.pods),
    gpuPods: only(seen.gpuPods),
    resourceClaims: only(seen.resourceClaims),
    volumes: only(seen.volumes),
    loadBalancers: only(seen.loadBalancers),
    workloads: only(seen.workloads),
  };
}
