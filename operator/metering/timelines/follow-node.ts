import { least } from '../../model/extremes.ts';
import type { NodeView } from './node.ts';
import {
  type NodeSettings,
  type NodeState,
  nodeState,
  sameNodeState,
  shareNodeState,
} from './node-state.ts';
import { providedState, type ProviderStatement } from './provided-node.ts';
import { type Api, API_OF_HOST } from './shared-values.ts';
import type { Sighting } from './sighting.ts';
import { change, currentState, enter, type Timeline } from './timeline.ts';

/** Which API shows a node, and what the provider states about it. */
interface NodeOrigin {
  /** Since when it is another cluster's node, ms since the epoch; overrides the state before. */
  readonly foreignSince?: number;
  /** The API that shows it. */
  readonly api?: Api;
  /** Set if the provider's statement replaces the tenant's; `pending` while it is unknown. */
  readonly statement?: ProviderStatement | 'pending';
}

const NOTHING_STATED: ProviderStatement = { labels: {} };

/**
 * Brings the timeline of a node up to date with a version of it
 * (docs/explanation/nodes.md#downtime).
 * 1. A state begins when the change arrives.
 * 2. Downtime begins when the taint was added, or without a taint time when the node ceased to be
 *    Ready.
 * 3. Downtime ends when the taint is gone.
 */
export function followNode(
  timeline: Timeline<NodeState>,
  node: NodeView,
  settings: NodeSettings,
  seen: Sighting,
  { foreignSince, api = API_OF_HOST, statement: given }: NodeOrigin = {},
): void {
  const share = (state: NodeState): NodeState => shareNodeState(state, api);
  let current = currentState(timeline);
  // The provider's earlier statement stays in force. Without one, the tenant's statement does.
  if (given === 'pending' && current?.trust === 'provider') return;
  const nothingYet = current === undefined ? NOTHING_STATED : undefined;
  const statement = given === 'pending' ? nothingYet : given;
  const reported = nodeState(node, settings, api);
  const own =
    statement === undefined
      ? reported
      : share(
          providedState({
            node,
            reported,
            statement,
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
    const since = statement === undefined ? downSince(node, settings) : statement.record?.downSince;
    enter(timeline, current, seen.trust(since ?? seen.from));
  }
  if (sameNodeState(current, state)) return;
  change(timeline, state, seen, (before) => share(leastNode(before, state)));
}

/**
 * Returns the cheapest state that a node can have had while it changed from `a` to `b`.
 * 1. It is down if either is down, and has the size of `a` if it grows.
 * 2. It is dedicated only to those to whom both are.
 * 3. Everything else is taken from `b`, so that older labels are never billed beyond their time.
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

/** CPU, memory and installed GPUs, to compare sizes. */
function sizesOf({ cpu, memory, gpus }: NodeState): readonly bigint[] {
  return [cpu, memory, gpus.reduce((sum, { installed }) => sum + installed, 0n)];
}

function downSince(node: NodeView, { unhealthyNodeTaints }: NodeSettings): number | undefined {
  const taints = node.taints.filter(({ key }) => unhealthyNodeTaints.includes(key));
  const times = taints.flatMap(({ timeAdded }) => timeAdded ?? []);
  return times.length === 0 ? node.notReadySince : least(times);
}
