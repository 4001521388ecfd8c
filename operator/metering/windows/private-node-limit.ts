import type { Window } from '../../model/window.ts';
import type { NodeState } from '../timelines/node-state.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import { seenTimelines } from '../timelines/seen-timelines.ts';
import type { Timeline } from '../timelines/timeline.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Gap } from './gaps.ts';

/** Private nodes of a tenant cluster that exceed maxPrivateNodes: a window leaves them out. */
export interface ExcludedNodes {
  readonly excluded: number;
  /** maxPrivateNodes of the tenant cluster. */
  readonly limit: number;
}

/**
 * Limits a tenant cluster's private nodes to maxPrivateNodes
 * (docs/explanation/nodes.md#more-private-nodes-than-are-billed). The nodes with the most GPUs, CPU
 * and memory are billed, so that nobody can hide an expensive node behind invented ones. A changed
 * limit applies from the next window.
 */
export function limitPrivateNodes(
  observation: ObservationReader,
  window: Window,
): {
  /** Without the excluded nodes, and so without what runs on them. */
  readonly observation: ObservationReader;
  readonly excludedNodes: ExcludedNodes | undefined;
} {
  const { nodes, tenantClusters } = observation;
  const [first] = tenantClusters.during(window.start, window.end);
  const limit = first?.state.metering.maxPrivateNodes ?? Infinity;
  if (nodes.size <= limit) return { observation, excludedNodes: undefined };
  const inWindow = [...nodes.inNamespace('')].flatMap((timeline) => {
    const state = stateWithin(timeline, window);
    return state === undefined || state.foreign === true ? [] : [{ timeline, state }];
  });
  if (inWindow.length <= limit) return { observation, excludedNodes: undefined };
  const excluded = new Set<Timeline<unknown>>(
    inWindow
      .toSorted(dearestFirst)
      .slice(limit)
      .map(({ timeline }) => timeline),
  );
  const seen = seenTimelines(nodes, (timeline) => !excluded.has(timeline));
  return {
    observation: { ...observation, nodes: seen },
    excludedNodes: { excluded: excluded.size, limit },
  };
}

interface PrivateNode {
  readonly timeline: Timeline<NodeState>;
  readonly state: NodeState;
}

function stateWithin(
  { spans }: Timeline<NodeState>,
  { start, end }: Window,
): NodeState | undefined {
  return spans.findLast(({ from, to }) => from < end && to > start)?.state;
}

function dearestFirst(a: PrivateNode, b: PrivateNode): number {
  return (
    descending(gpus(a.state), gpus(b.state)) ||
    descending(a.state.cpu, b.state.cpu) ||
    descending(a.state.memory, b.state.memory) ||
    (a.timeline.spans[0]?.from ?? 0) - (b.timeline.spans[0]?.from ?? 0) ||
    (a.timeline.uid < b.timeline.uid ? -1 : 1)
  );
}

function gpus({ gpus: models }: NodeState): bigint {
  return models.reduce((sum, { installed }) => sum + installed, 0n);
}

function descending(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a > b ? -1 : 1;
}

/** Gap source of excluded private nodes. */
export const PRIVATE_NODES_SOURCE = 'private-nodes';

/** The gap of excluded private nodes. Nothing fills it: their time is not billed later. */
export function excludedNodesGap(window: Window, id: string, excludedNodes: ExcludedNodes): Gap {
  const { start: from, end: to } = window;
  return { source: PRIVATE_NODES_SOURCE, scope: id, from, to, reason: reasonOf(excludedNodes) };
}

function reasonOf({ excluded, limit }: ExcludedNodes): string {
  return `${excluded} private nodes exceed the ${limit} of maxPrivateNodes and are not billed`;
}

/** Why windows lack usage of a tenant cluster. */
export interface TenantNotice {
  readonly tenantCluster: string;
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

/** Tenant clusters that had excluded nodes in their last window. */
export class PrivateNodeNotices {
  readonly #logger: Logger;
  readonly #notices = new Map<string, TenantNotice>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  note(tenantCluster: string, { end }: Window, excludedNodes: ExcludedNodes | undefined): void {
    const before = this.#notices.get(tenantCluster);
    if (excludedNodes === undefined) {
      this.#notices.delete(tenantCluster);
      return;
    }
    const reason = reasonOf(excludedNodes);
    this.#notices.set(tenantCluster, { tenantCluster, reason, since: before?.since ?? end });
    if (before === undefined) {
      this.#logger.error(`[controller] tenant cluster ${tenantCluster}: ${reason}`);
    }
  }

  forget(tenantCluster: string): void {
    this.#notices.delete(tenantCluster);
  }

  list(): readonly TenantNotice[] {
    return [...this.#notices.values()];
  }
}
