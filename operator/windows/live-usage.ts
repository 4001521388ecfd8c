import type { Settings } from '../config/settings.ts';
import { createFindings } from '../metering/findings.ts';
import { balanceGpus } from '../metering/gpu-balance.ts';
import type { Meter } from '../metering/meter.ts';
import { type Charge, type ChargeIdentity, createTally } from '../metering/tally.ts';
import { meterWholeNodes } from '../metering/whole-nodes.ts';
import type { Projected } from '../kubernetes/source.ts';
import { atOnce } from '../model/at-once.ts';
import type { Window } from '../model/window.ts';
import type { Observation } from '../observation/observation.ts';
import { observationOf } from '../observation/seen-timelines.ts';
import type { Timelines } from '../observation/timelines.ts';
import { meterSettings } from './measure-scope.ts';
import type { ScopeState } from './scope.ts';

/** What goes on in some namespaces and is in no closed window yet, of one charge. */
export interface LiveUsage {
  readonly identity: ChargeIdentity;
  /** The scope that it is measured with; an identity may come from several. */
  readonly scope: string;
  /** The end of the last closed window, milliseconds since the epoch. */
  readonly windowStart: number;
  /** Since then, nano-units × milliseconds; below zero where closed windows had too much. */
  readonly amount: bigint;
  /** When it was measured, milliseconds since the epoch. */
  readonly at: number;
  /** What each millisecond adds from then on if nothing changes. */
  readonly rate: bigint;
}

/** What is in no namespace is measured when its window is closed, for all together. */
const OF_NODES: ReadonlySet<Meter> = new Set([meterWholeNodes, balanceGpus]);

/**
 * Measures what of some namespaces is in no closed window yet, as their windows will be. Takes as long as there are objects in
 * these namespaces, and nodes. Changes nothing. Undefined while some of it has not been listed.
 */
export function liveUsage(
  states: readonly ScopeState[],
  namespaces: ReadonlySet<string>,
  settings: Settings,
  now: number,
): readonly LiveUsage[] | undefined {
  const concerned = states.filter(
    ({ scope: { namespace } }) => namespace === undefined || namespaces.has(namespace),
  );
  if (!concerned.every(({ listed }) => listed)) return undefined;
  return concerned.flatMap((state) => measure(state, namespaces, settings, now));
}

function measure(
  { scope, progress, learntUntil }: ScopeState,
  namespaces: ReadonlySet<string>,
  settings: Settings,
  now: number,
): readonly LiveUsage[] {
  const { end: windowStart, sizeMs, meteredFrom } = progress;
  // Before the first window, or when the clock was set back, nothing of it has gone on yet.
  const at = Math.max(now, windowStart + 1);
  const observation = within(scope.observation, namespaces);
  const size = { start: windowStart, end: windowStart + sizeMs };
  const common = { observation, meteredFrom, learntUntil, settings: meterSettings(settings, size) };
  const meters = scope.meters.filter((meter) => !OF_NODES.has(meter));
  const charges = (window: Window): ReadonlyMap<string, Charge> => {
    const [tally, findings] = [createTally(), createFindings()];
    for (const meter of meters) atOnce(meter({ ...common, window, tally, findings }));
    const keyed = [...tally.charges()].map((one) => [one.key, one] as const);
    return new Map(keyed);
  };
  const last = charges({ start: at - 1, end: at });
  return [...charges({ start: windowStart, end: at })].map(
    ([key, { identity, amount, carried }]) => ({
      identity,
      scope: scope.name,
      windowStart,
      amount: amount + carried,
      at,
      rate: last.get(key)?.amount ?? 0n,
    }),
  );
}

/** The same observation with the objects of some namespaces; others are not even looked at. */
function within(observation: Observation, namespaces: ReadonlySet<string>): Observation {
  const seen = observationOf(observation, (namespace) => namespaces.has(namespace));
  const only = <T extends Projected, S>(timelines: Timelines<T, S>): Timelines<T, S> => ({
    ...timelines,
    namespaces: function* () {
      for (const namespace of namespaces) yield [namespace, timelines.inNamespace(namespace)];
    },
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
