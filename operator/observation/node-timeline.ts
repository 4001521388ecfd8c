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
 * (docs/metering.md#downtime). It is up again when the taint is gone. `foreignSince` says since when
 * it is a node of another cluster, whatever was believed of it before.
 */
export function followNode(
  timeline: Timeline<NodeState>,
  node: NodeView,
  settings: NodeSettings,
  seen: Sighting,
  foreignSince?: number,
): void {
  const own = nodeState(node, settings);
  const state = foreignSince === undefined ? own : shareNodeState({ ...own, foreign: true });
  let current = currentState(timeline);
  if (current === undefined) {
    current = shareNodeState({ ...own, down: false });
    enter(timeline, current, seen.believe(node.createdAt));
  }
  if (foreignSince !== undefined && current.foreign !== true) {
    current = shareNodeState({ ...current, foreign: true });
    enter(timeline, current, Math.min(foreignSince, seen.at));
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
