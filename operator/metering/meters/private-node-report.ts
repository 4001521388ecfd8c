import { UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { Span } from '../timelines/timeline.ts';
import type { PrivateNodeChanges } from './meter-reports.ts';
import type { Meter } from './meter.ts';

/** Ranks capacity types by price; higher costs more. */
const PRICES: Readonly<Record<NodeState['capacityType'], number>> = {
  'on-demand': 2,
  reserved: 1,
  spot: 0,
  preemptible: 0,
};

/** Limit of listed changes in a window. */
const MOST_RELABELLED = 100;

/**
 * Reports how a trusted tenant's API changes the price of private nodes
 * (docs/explanation/nodes.md#whom-to-trust-about-nodes). It affects no charge and is only shown.
 */
export const reportPrivateNodes: Meter = function* ({
  window,
  meteredFrom,
  observation,
  diagnostics,
  privateNodes,
}) {
  if (privateNodes !== true) return;
  const changes: PrivateNodeChanges = { nodeMs: 0, downMs: 0, flaps: 0, relabelled: new Set() };
  for (const { name, spans } of observation.nodes.inNamespace('')) {
    add(changes, name, spans, window.start, window.end, 1);
    yield;
  }
  if (meteredFrom < window.start) {
    for (const { name, spans, billed = spans } of observation.nodes.late()) {
      add(changes, name, billed, meteredFrom, window.start, -1);
      add(changes, name, spans, meteredFrom, window.start, 1);
      yield;
    }
  }
  diagnostics.privateNodeReport = changes;
};

function add(
  changes: PrivateNodeChanges,
  node: string,
  spans: readonly Span<NodeState>[],
  from: number,
  to: number,
  weight: 1 | -1,
): void {
  for (const [index, { state, ...span }] of spans.entries()) {
    const ms = Math.min(to, span.to) - Math.max(from, span.from);
    if (ms <= 0 || !isTrusted(state)) continue;
    changes.nodeMs += weight * ms;
    if (state.down) changes.downMs += weight * ms;
    const before = spans[index - 1];
    if (before?.to !== span.from || span.from < from || !isTrusted(before.state)) continue;
    if (state.down && !before.state.down) changes.flaps += weight;
    for (const change of weight > 0 ? cheaper(before.state, state) : []) {
      if (changes.relabelled.size < MOST_RELABELLED) changes.relabelled.add(`${node}: ${change}`);
    }
  }
}

function isTrusted({ trust, foreign }: NodeState): boolean {
  return trust === undefined && foreign !== true;
}

/** Returns the fields that became cheaper or different; a first name is no change. */
function cheaper(before: NodeState, after: NodeState): readonly string[] {
  const changes: (readonly [what: string, from: string | undefined, to: string | undefined])[] = [
    ['GPU model', modelOf(before), modelOf(after)],
    ['instance type', before.instanceType, after.instanceType],
    ['sku', before.sku, after.sku],
  ];
  if (PRICES[after.capacityType] < PRICES[before.capacityType]) {
    changes.push(['capacity type', before.capacityType, after.capacityType]);
  }
  return changes
    .filter(([, from, to]) => from !== undefined && from !== to)
    .map(([what, from, to]) => `${what} "${from ?? ''}" → "${to ?? ''}"`);
}

/** The GPU model in labels; an instance type is no model. */
function modelOf({ gpuType, instanceType }: NodeState): string | undefined {
  return gpuType === UNKNOWN_GPU || gpuType === instanceType ? undefined : gpuType;
}
