import type { Settings } from '../config/settings.ts';
import {
  type NodeLookup,
  nodesByName,
  spansByName,
  type SpansByName,
} from '../metering/node-owners.ts';
import type { Observation } from '../observation/observation.ts';
import { meterSettings } from './measure-scope.ts';

const NONE: ReadonlyMap<string, readonly string[]> = new Map();

/** The nodes that pods are measured by, looked up as long as they stay what they are: there are thousands. */
export class LiveNodes {
  readonly #observation: Observation;
  #spans: SpansByName | undefined;
  #lastChange = 0;
  #lookup: { readonly madeBy: readonly unknown[]; readonly nodeAt: NodeLookup } | undefined;

  constructor(observation: Observation) {
    this.#observation = observation;
  }

  /** What nodes are at this moment. */
  lookup(settings: Settings): NodeLookup {
    const { nodes, tenantClusters } = this.#observation;
    const { identity, metering } = settings;
    const late = [...nodes.late()].length;
    const madeBy = [nodes.lastChange(''), tenantClusters.version, identity, metering, late];
    const known = this.#lookup;
    // What closed windows went by may be another with every late fact.
    if (known !== undefined && late === 0 && isSame(known.madeBy, madeBy)) return known.nodeAt;
    const { windowMs } = metering;
    const sized = meterSettings(settings, { start: 0, end: windowMs });
    const nodeAt = nodesByName({ observation: this.#observation, settings: sized });
    this.#lookup = { madeBy, nodeAt };
    return nodeAt;
  }

  /** By namespace the pods, by their uids, whose nodes have become something else since the last call. */
  podsOnChanged(): ReadonlyMap<string, readonly string[]> {
    const { nodes, pods } = this.#observation;
    const lastChange = nodes.lastChange('');
    const before = this.#spans;
    if (before !== undefined && lastChange === this.#lastChange) return NONE;
    const after = spansByName(nodes, false);
    this.#spans = after;
    this.#lastChange = lastChange;
    if (before === undefined) return NONE;
    const names = new Set([...before.keys(), ...after.keys()]);
    const changed = new Set([...names].filter((name) => before.get(name) !== after.get(name)));
    const found = new Map<string, readonly string[]>();
    for (const [namespace, timelines] of pods.namespaces()) {
      const uids: string[] = [];
      for (const { uid, spans } of timelines) {
        if (spans.some(({ state }) => changed.has(state.node))) uids.push(uid);
      }
      if (uids.length > 0) found.set(namespace, uids);
    }
    return found;
  }
}

function isSame(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
