import { UNKNOWN_GPU } from '../timelines/gpu-device.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { Span } from '../timelines/timeline.ts';
import type { PrivateNodeWord } from './meter-reports.ts';
import type { Meter } from './meter.ts';

/** Of capacity types: what costs less than what. */
const PRICES: Readonly<Record<NodeState['capacityType'], number>> = {
  'on-demand': 2,
  reserved: 1,
  spot: 0,
  preemptible: 0,
};

/** As many are kept of a window. */
const MOST_RELABELLED = 100;

/**
 * Notes what a tenant's word does to the price of its own nodes, where it is believed
 * (docs/explanation/nodes.md#whom-to-trust-about-nodes): it bears on no charge, and is there to be looked at.
 */
export const notePrivateNodeWord: Meter = function* ({
  window,
  meteredFrom,
  observation,
  diagnostics,
  privateNodes,
}) {
  if (privateNodes !== true) return;
  const word: PrivateNodeWord = { nodeMs: 0, downMs: 0, flaps: 0, relabelled: new Set() };
  for (const { name, spans } of observation.nodes.inNamespace('')) {
    add(word, name, spans, window.start, window.end, 1);
    yield;
  }
  if (meteredFrom < window.start) {
    for (const { name, spans, billed = spans } of observation.nodes.late()) {
      add(word, name, billed, meteredFrom, window.start, -1);
      add(word, name, spans, meteredFrom, window.start, 1);
      yield;
    }
  }
  diagnostics.privateNodeReport = word;
};

function add(
  word: PrivateNodeWord,
  node: string,
  spans: readonly Span<NodeState>[],
  from: number,
  to: number,
  weight: 1 | -1,
): void {
  for (const [index, { state, ...span }] of spans.entries()) {
    const ms = Math.min(to, span.to) - Math.max(from, span.from);
    if (ms <= 0 || !isTrusted(state)) continue;
    word.nodeMs += weight * ms;
    if (state.down) word.downMs += weight * ms;
    const before = spans[index - 1];
    if (before?.to !== span.from || span.from < from || !isTrusted(before.state)) continue;
    if (state.down && !before.state.down) word.flaps += weight;
    for (const change of weight > 0 ? cheaper(before.state, state) : []) {
      if (word.relabelled.size < MOST_RELABELLED) word.relabelled.add(`${node}: ${change}`);
    }
  }
}

function isTrusted({ trust, foreign }: NodeState): boolean {
  return trust === undefined && foreign !== true;
}

/** What of a node was made cheaper, or other than it was; that something is named at last is no change. */
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

/** The model that labels name; an instance type is none. */
function modelOf({ gpuType, instanceType }: NodeState): string | undefined {
  return gpuType === UNKNOWN_GPU || gpuType === instanceType ? undefined : gpuType;
}
