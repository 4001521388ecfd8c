import type { NodeView } from './node.ts';
import {
  type NodeSettings,
  type NodeState,
  nodeState,
  sameNodeState,
  shareNodeState,
} from './node-state.ts';
import type { Sighting } from './sighting.ts';
import { currentState, enter, type Timeline } from './timeline.ts';

/**
 * Follows a node from its creation. Its state changes when the change arrives, but for going down:
 * that began when the taint was added or, where no taint says, when the node ceased to be Ready
 * (design 7, Downtime). It is up again when the taint is gone.
 */
export function followNode(
  timeline: Timeline<NodeState>,
  node: NodeView,
  settings: NodeSettings,
  seen: Sighting,
): void {
  const state = nodeState(node, settings);
  let current = currentState(timeline);
  if (current === undefined) {
    current = shareNodeState({ ...state, down: false });
    enter(timeline, current, seen.believe(node.createdAt));
  }
  if (state.down && !current.down) {
    current = shareNodeState({ ...current, down: true });
    enter(timeline, current, seen.believe(downSince(node, settings) ?? seen.at));
  }
  if (!sameNodeState(current, state)) enter(timeline, state, seen.at);
}

function downSince(node: NodeView, { unhealthyNodeTaints }: NodeSettings): number | undefined {
  const taints = node.taints.filter(({ key }) => unhealthyNodeTaints.includes(key));
  const times = taints.flatMap(({ timeAdded }) => timeAdded ?? []);
  return times.length === 0 ? node.notReadySince : Math.min(...times);
}
