import type { NodeState } from '../observation/node-state.ts';
import type { Span } from '../observation/timeline.ts';
import { createOwners, type OwnedStretch } from './dedicated-nodes.ts';
import type { MeterInput } from './meter.ts';

/** What a node was during `[from, to)`, and whose; no state when no node of that name was ever seen. */
export interface NodeStretch extends OwnedStretch {
  readonly state: NodeState | undefined;
}

/**
 * Looks up what the node of a name was, stretch by stretch, without holes. `asBilled` asks for what
 * closed windows went by, before late facts.
 */
export type NodeLookup = (
  name: string,
  from: number,
  to: number,
  asBilled?: boolean,
) => readonly NodeStretch[];

type SpansByName = ReadonlyMap<string, readonly Span<NodeState>[]>;

/**
 * Nodes by name. A pod may be known a moment before its node, and outlive it by a moment: the first
 * state of a node reaches back, and each later one reaches on until the next.
 */
export function nodesByName(
  input: Pick<MeterInput, 'observation' | 'settings' | 'ownNodes'>,
): NodeLookup {
  const { nodes } = input.observation;
  const owners = createOwners(input);
  const known = spansByName(nodes, false);
  const billed = [...nodes.late()].length === 0 ? known : spansByName(nodes, true);
  return (name, from, to, asBilled = false) => {
    const spans = (asBilled ? billed : known).get(name) ?? [];
    return reaching(spans, from, to).flatMap(({ state, ...bounds }): readonly NodeStretch[] => {
      if (state === undefined) return [{ ...bounds, state, owner: undefined, rivals: [] }];
      return owners(state, bounds.from, bounds.to).map((owned) => ({ ...owned, state }));
    });
  };
}

function spansByName(nodes: MeterInput['observation']['nodes'], asBilled: boolean): SpansByName {
  const byName = new Map<string, Span<NodeState>[]>();
  for (const timeline of nodes.inNamespace('')) {
    const spans = asBilled ? (timeline.billed ?? timeline.spans) : timeline.spans;
    byName.set(timeline.name, [...(byName.get(timeline.name) ?? []), ...spans]);
  }
  for (const spans of byName.values()) spans.sort((a, b) => a.from - b.from);
  return byName;
}

function reaching(
  spans: readonly Span<NodeState>[],
  from: number,
  to: number,
): readonly {
  readonly from: number;
  readonly to: number;
  readonly state: NodeState | undefined;
}[] {
  const [only] = spans;
  if (spans.length <= 1) return [{ from, to, state: only?.state }];
  return spans.flatMap((span, index) => {
    const start = index === 0 ? from : Math.max(from, span.from);
    const end = Math.min(to, spans[index + 1]?.from ?? Infinity);
    return end <= start ? [] : [{ from: start, to: end, state: span.state }];
  });
}
