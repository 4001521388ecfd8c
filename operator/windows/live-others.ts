import type { Settings } from '../config/settings.ts';
import type { Projected } from '../kubernetes/source.ts';
import { createFindings } from '../metering/findings.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import { meterInstanceHours } from '../metering/instance-hours.ts';
import type { Meter } from '../metering/meter.ts';
import { createTally } from '../metering/tally.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import { atOnce } from '../model/at-once.ts';
import type { Window } from '../model/window.ts';
import type { Observation } from '../observation/observation.ts';
import { observationOf, tenantClustersOf } from '../observation/seen-timelines.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { LiveStretch } from './live-stretch.ts';
import { type Charged, linesOf, type LivePart, type LiveUsage } from './live-usage.ts';
import { meterSettings } from './measure-scope.ts';
import type { ScopeName, ScopeState } from './scope.ts';

/** Every kind of usage but CPU and memory of pods. */
export type OtherKind = Exclude<ScopeName, 'pods'>;

export const OTHER_KINDS: readonly OtherKind[] = ['gpus', 'volumes', 'load-balancers', 'workloads'];

/** What is in no namespace is measured when its window is closed, for all together. */
const OF_NODES: ReadonlySet<Meter> = new Set([meterWholeNodes, balanceGpus]);

/** Timelines, as far as it is asked whether there are any, and whether they have changed. */
interface Changing {
  inNamespace(namespace: string): Iterable<unknown>;
  lastChange(namespace: string): number;
}

/** What each is measured out of in a namespace. */
const OTHERS: Readonly<Record<OtherKind, (observation: Observation) => readonly Changing[]>> = {
  gpus: ({ gpuPods, resourceClaims }) => [gpuPods, resourceClaims],
  volumes: ({ volumes }) => [volumes],
  'load-balancers': ({ loadBalancers }) => [loadBalancers],
  workloads: ({ workloads }) => [workloads],
};

/** What is measured of a kind. */
export interface OthersAsked {
  readonly namespace: string;
  readonly stretch: LiveStretch;
  readonly settings: Settings;
}

/** What of a kind goes on in a namespace, measured as its window will be. */
export function measureOthers(kind: OtherKind, state: ScopeState, asked: OthersAsked): LivePart {
  const { scope } = state;
  const { window, isLate } = asked.stretch;
  const timelines = OTHERS[kind](scope.observation);
  // Most namespaces have nothing of most kinds, and what meters begin with takes as long as the cluster is large.
  const isEmpty = !timelines.some((each) => holdsAny(each, asked.namespace));
  const usage = isEmpty ? [] : measure(state, asked);
  return { scope: scope.name, windowStart: window.start, isLate, usage };
}

/** While it is the same, {@link measureOthers} only comes to more with time, whatever the kind. */
export function markOfOthers(observation: Observation, namespace: string): string {
  const { gpuNodes, resourceSlices } = observation;
  const own = OTHER_KINDS.flatMap((kind) =>
    OTHERS[kind](observation).map((each) => each.lastChange(namespace)),
  );
  const holdsGpus = OTHERS.gpus(observation).some((each) => holdsAny(each, namespace));
  const shared = holdsGpus ? [gpuNodes, resourceSlices].map((each) => each.lastChange('')) : [];
  return [...own, ...shared].join();
}

function holdsAny(timelines: Changing, namespace: string): boolean {
  const [first] = timelines.inNamespace(namespace);
  return first !== undefined;
}

function measure(
  { scope, learntUntil }: ScopeState,
  { namespace, stretch, settings }: OthersAsked,
): readonly LiveUsage[] {
  const { window: whole, sizeMs, meteredFrom } = stretch;
  const { start, end } = whole;
  const seen = within(scope.observation, namespace);
  const { tenantClusters } = seen;
  // Instances are those of tenant clusters; whose a node is, all of them say.
  const observation = scope.meters.includes(meterInstanceHours)
    ? { ...seen, tenantClusters: tenantClustersOf(tenantClusters, namespace) }
    : seen;
  const size = { start, end: start + sizeMs };
  const common = { observation, learntUntil, settings: meterSettings(settings, size) };
  const meters = scope.meters.filter((meter) => !OF_NODES.has(meter));
  const charges = (window: Window, from: number): ReadonlyMap<string, Charged> => {
    const [tally, findings] = [createTally(), createFindings()];
    const input = { ...common, meteredFrom: from, window, tally, findings };
    for (const meter of meters) atOnce(meter(input));
    return new Map(
      [...tally.charges()].map(({ key, identity, amount, carried }) => {
        return [key, { identity, amount: amount + carried }] as const;
      }),
    );
  };
  // What has changed by now is in the next millisecond, which is as each further one.
  const next = charges({ start: end, end: end + 1 }, end);
  return linesOf(whole, charges(whole, meteredFrom), next);
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
