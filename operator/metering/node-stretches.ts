import type { NodeState } from '../observation/node-state.ts';
import type { Observation } from '../observation/observation.ts';
import type { Span } from '../observation/timeline.ts';

/** What a node was during `[from, to)`; undefined when no node of that name was ever seen. */
export interface NodeStretch {
  readonly from: number;
  readonly to: number;
  readonly state: NodeState | undefined;
}

/** Looks up what the node of a name was, stretch by stretch, without holes. */
export type NodeLookup = (name: string, from: number, to: number) => readonly NodeStretch[];

/**
 * Nodes by name. A pod may be known a moment before its node, and outlive it by a moment: the first
 * state of a node reaches back, and each later one reaches on until the next.
 */
export function nodesByName(nodes: Observation['nodes']): NodeLookup {
  const byName = new Map<string, Span<NodeState>[]>();
  for (const timeline of nodes.inNamespace('')) {
    byName.set(timeline.name, [...(byName.get(timeline.name) ?? []), ...timeline.spans]);
  }
  for (const spans of byName.values()) spans.sort((a, b) => a.from - b.from);
  return (name, from, to) => {
    const spans = byName.get(name) ?? [];
    const [only] = spans;
    if (spans.length <= 1) return [{ from, to, state: only?.state }];
    return spans.flatMap((span, index) => {
      const start = index === 0 ? from : Math.max(from, span.from);
      const end = Math.min(to, spans[index + 1]?.from ?? Infinity);
      return end <= start ? [] : [{ from: start, to: end, state: span.state }];
    });
  };
}
