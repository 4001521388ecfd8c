import type { Arrival, Projected } from '../kubernetes/source.ts';
import { machineIds } from '../metering/timelines/machine-record.ts';
import type { NodeState } from '../metering/timelines/node-state.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { Timelines } from '../metering/timelines/timelines.ts';
import type { WatchedTimelines } from './kind-watch.ts';

/**
 * Applies a tenant cluster's nodes to their timelines. A node that disappears from the API
 * continues while the record of its machine lives (docs/explanation/nodes.md#records-of-machines).
 * It ends when the machine becomes a node of another name.
 */
export class HiddenNodes implements WatchedTimelines<NodeView> {
  readonly #options;
  readonly #hidden = new Map<
    string,
    {
      readonly node: NodeView;
      /** Wall clock, milliseconds; 0 for a node from the journal. */
      readonly since: number;
    }
  >();
  /** Until when the hidden nodes of the journal were known to have a record. */
  #knownAt: number | undefined;

  constructor(options: {
    readonly timelines: Timelines<NodeView, NodeState>;
    /** Returns whether a host's record proves that the node's machine exists and counts. */
    readonly lives: (node: NodeView) => boolean;
    /** Called when the node is gone for good. */
    readonly release: (uid: string) => void;
    /** Nodes in the journal, and until when they were known (wall clock, milliseconds). */
    readonly known: { readonly objects: Iterable<NodeView>; readonly knownAt?: number } | undefined;
  }) {
    this.#options = options;
    const { objects, knownAt } = options.known ?? { objects: [] };
    for (const node of objects)
      if (node.hidden === true) this.#hidden.set(node.uid, { node, since: 0 });
    this.#knownAt = knownAt;
  }

  get kind(): string {
    return this.#options.timelines.kind;
  }

  get size(): number {
    return this.#hidden.size;
  }

  upserted(next: NodeView, previous: NodeView | undefined, arrival: Arrival): void {
    this.#hidden.delete(next.uid);
    let { createdAt } = next;
    const ids = this.#hidden.size === 0 ? [] : machineIds(next);
    for (const { node, since } of this.#hidden.values()) {
      if (!machineIds(node).some((id) => ids.includes(id))) continue;
      // A machine is billed as one node at any time.
      const at = Math.min(arrival.at, Math.max(createdAt, since));
      this.#end(node, { at, knownUntil: at, late: false });
      createdAt = Math.max(createdAt, at);
    }
    const view = createdAt === next.createdAt ? next : { ...next, createdAt };
    this.#options.timelines.upserted(view, previous, arrival);
  }

  deleted(last: NodeView, arrival: Arrival): void {
    if (!this.#options.lives(last)) {
      this.#end(last, arrival);
      return;
    }
    const node: NodeView = { ...last, hidden: true };
    this.#hidden.set(last.uid, { node, since: arrival.at });
    this.#options.timelines.upserted(node, last, arrival);
  }

  listed(isPresent: (object: Projected) => boolean, knownUntil: number, listedAt?: number): void {
    const isThere = (object: Projected): boolean =>
      isPresent(object) || this.#hidden.has(object.uid);
    this.#options.timelines.listed(isThere, knownUntil, listedAt);
  }

  forget(): void {
    this.#hidden.clear();
    this.#options.timelines.forget();
  }

  /** Ends the nodes whose machine has no record. */
  review(now: number): void {
    const late = this.#knownAt;
    for (const { node } of this.#hidden.values()) {
      if (this.#options.lives(node)) continue;
      this.#end(node, { at: now, knownUntil: late ?? now, late: late !== undefined });
    }
    this.#knownAt = undefined;
  }

  /** Forgets everything: the tenant cluster is gone. */
  close(): void {
    this.#hidden.clear();
  }

  #end(node: NodeView, arrival: Arrival): void {
    this.#hidden.delete(node.uid);
    this.#options.timelines.deleted(node, arrival);
    this.#options.release(node.uid);
  }
}
