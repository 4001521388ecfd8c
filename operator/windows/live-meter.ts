import type { Settings } from '../config/settings.ts';
import type { Observation } from '../observation/observation.ts';
import type { Clock } from '../telemetry/clock.ts';
import { LiveGrounds, type Unseen } from './live-grounds.ts';
import { LiveNodes } from './live-nodes.ts';
import { markOfOthers, measureOthers, OTHER_KINDS } from './live-others.ts';
import { LivePods } from './live-pods.ts';
import { type LiveStretch, liveStretch } from './live-stretch.ts';
import type { LivePart, LivePlace, LiveView } from './live-usage.ts';
import type { ScopeName, ScopeState } from './scope.ts';

export interface LiveOptions {
  readonly observation: Observation;
  /** The scopes of this cluster, those of namespaces that are apart included. */
  readonly states: () => readonly ScopeState[];
  readonly settings: () => Settings;
  readonly clock: Pick<Clock, 'now'>;
}

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
    place: LivePlace,
    uids?: Iterable<string>,
  ): Iterable<readonly [uid: string, part: LivePart]> | undefined {
    const { settings } = this.#options;
    const { namespace } = place;
    const state = this.#stateOf('pods', namespace);
    if (state?.listed !== true) return undefined;
    const { pods } = state.scope.observation;
    const found =
      uids === undefined
        ? [...pods.inNamespace(namespace)].map((timeline) => [timeline.uid, timeline] as const)
        : [...uids].map((uid) => [uid, pods.find({ namespace, uid })] as const);
    if (found.length === 0) return [];
    const nodeAt = this.#nodes.lookup(settings());
    const live = new LivePods(state, this.#stretchOf(state, place), nodeAt, settings());
    return found.map(([uid, timeline]) => {
      return [uid, timeline === undefined ? live.nothing() : live.measure(timeline)] as const;
    });
  }

  others(place: LivePlace): readonly LivePart[] | undefined {
    const { settings } = this.#options;
    const { namespace } = place;
    const states = OTHER_KINDS.flatMap((kind) => {
      const state = this.#stateOf(kind, namespace);
      return state === undefined ? [] : [{ kind, state }];
    });
    if (!states.every(({ state }) => state.listed)) return undefined;
    return states.map(({ kind, state }) => {
      const stretch = this.#stretchOf(state, place);
      return measureOthers(kind, state, { namespace, stretch, settings: settings() });
    });
  }

  othersMark(namespace: string): string {
    return markOfOthers(this.#options.observation, namespace);
  }

  unseen(namespaces: Iterable<string>): Unseen {
    return this.#grounds.unseen(namespaces);
  }

  #stretchOf({ progress }: ScopeState, { since }: LivePlace): LiveStretch {
    const { settings, clock } = this.#options;
    const { windowMs } = settings().metering;
    return liveStretch(progress, { since, windowMs, now: clock.now() });
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
