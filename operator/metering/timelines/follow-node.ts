import { least } from '../../model/extremes.ts';
import type { NodeView } from './node.ts';
import {
  type NodeSettings,
  type NodeState,
  nodeState,
  sameNodeState,
  shareNodeState,
} from './node-state.ts';
import { providedState, type ProviderWord } from './provided-node.ts';
import { type Api, API_OF_HOST } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline } from './timeline.ts';

/** Where a node was seen. */
interface NodePlace {
  /** Since when it is a node of another cluster, whatever was believed of it before. */
  readonly foreignSince?: number | undefined;
  /** The API that shows it. */
  readonly api?: Api;
  /** Given where the tenant's word does not count; `pending` while nobody knows what the provider says. */
  readonly word?: ProviderWord | 'pending' | undefined;
}

const NOTHING_STATED: ProviderWord = { labels: {} };

/**
 * Follows a node from its creation. Its state changes when the change arrives, but for going down:
 * that began when the taint was added or, where no taint says, when the node ceased to be Ready
 * (docs/explanation/nodes.md#downtime). It is up again when the taint is gone.
 */
export function followNode(
  timeline: Timeline<NodeState>,
  node: NodeView,
  settings: NodeSettings,
  seen: Sighting,
  { foreignSince, api = API_OF_HOST, word: given }: NodePlace = {},
): void {
  const share = (state: NodeState): NodeState => shareNodeState(state, api);
  let current = currentState(timeline);
  // What the provider said before goes on, and so does the tenant's word where it has counted until now.
  if (given === 'pending' && current?.trust === 'provider') return;
  const unsaid = current === undefined ? NOTHING_STATED : undefined;
  const word = given === 'pending' ? unsaid : given;
  const reported = nodeState(node, settings, api);
  const own =
    word === undefined
      ? reported
      : share(
          providedState({
            node,
            told: reported,
            word,
            settings,
            spans: timeline.spans,
            at: seen.at,
          }),
        );
  const state = foreignSince === undefined ? own : share({ ...own, foreign: true });
  if (current === undefined) {
    current = share({ ...own, down: false });
    enter(timeline, current, seen.trust(node.createdAt));
  }
  if (foreignSince !== undefined && current.foreign !== true) {
    current = share({ ...current, foreign: true });
    enter(timeline, current, Math.min(foreignSince, seen.at));
  }
  if (state.down && !current.down) {
    current = share({ ...current, down: true });
    const since = word === undefined ? downSince(node, settings) : word.record?.downSince;
    enter(timeline, current, seen.trust(since ?? seen.from));
  }
  if (sameNodeState(current, state)) return;
  change(timeline, state, seen, (before) => share(leastNode(before, state)));
}

/**
 * What a node was at the least while it changes from `a` to `b`: down where either is, dedicated to
 * whom both are, of `a`'s size where it grows. Otherwise what `b` says counts from the earliest moment,
 * so that the older labels of a node are never billed beyond their time.
 */
function leastNode(a: NodeState, b: NodeState): NodeState {
  const [before, after] = [sizesOf(a), sizesOf(b)];
  const shrinks = before.some((size, index) => size > (after[index] ?? 0n));
  const grows = !shrinks && before.some((size, index) => size < (after[index] ?? 0n));
  const isComingUp = a.down && !b.down;
  const base = isComingUp || grows ? a : b;
  const { configured } = a.dedicatedTo;
  const namespaceOrName = a.dedicatedTo.namespaceOrName.filter((value) =>
    b.dedicatedTo.namespaceOrName.includes(value),
  );
  const isConfigured = configured !== undefined && configured === b.dedicatedTo.configured;
  return {
    ...base,
    dedicatedTo: { namespaceOrName, ...(isConfigured ? { configured } : {}) },
  };
}

/** CPU, memory and GPUs. */
function sizesOf({ cpu, memory, gpus }: NodeState): readonly bigint[] {
  return [cpu, memory, gpus.reduce((sum, { installed }) => sum + installed, 0n)];
}

function downSince(node: NodeView, { unhealthyNodeTaints }: NodeSettings): number | undefined {
  const taints = node.taints.filter(({ key }) => unhealthyNodeTaints.includes(key));
  const times = taints.flatMap(({ timeAdded }) => timeAdded ?? []);
  return times.length === 0 ? node.notReadySince : least(times);
}
