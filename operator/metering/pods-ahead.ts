import { isDeepStrictEqual } from 'node:util';
import type { PodState } from '../observation/pod.ts';
import type { Span, Timeline } from '../observation/timeline.ts';
import { createPodMeter } from './cpu-memory.ts';
import { createFindings, type Findings } from './findings.ts';
import type { MeasuredAhead, MeterInput } from './meter.ts';
import { type NodeLookup, nodesByName, spansByName, type SpansByName } from './node-owners.ts';
import { addCharges, createTally, type Tally } from './tally.ts';

/** What a window will be measured out of; its observation goes on changing. */
export type AheadInput = Omit<MeterInput, 'tally' | 'findings' | 'checkpoint' | 'ahead'>;

/** What one namespace came to, and what it was measured out of. */
interface MeasuredNamespace {
  /** In their order. */
  readonly timelines: Timeline<PodState>[];
  /** What each of them was. Lists of spans are replaced when they change, never written to. */
  readonly spans: (readonly Span<PodState>[])[];
  readonly tally: Tally;
  readonly findings: Findings;
  /** The last change that it is known to be as measured with. */
  lastChange: number;
  /** What nodes were when it was last known to be as measured. */
  nodes: SpansByName;
}

type ChangedNodes = (before: SpansByName) => ReadonlySet<string>;

interface Taking {
  readonly input: MeterInput;
  /** Undefined where nothing holds any more. */
  readonly changed: ChangedNodes | undefined;
}

/**
 * CPU and memory of pods in a window that is not closed yet, measured in short turns: a hundred thousand
 * pods take seconds, in which nobody else would have a turn, and which the ledger would have the window later. It may
 * be begun before the window ends: of what goes on, it is known what it will come to. When the window is closed only
 * what would come out otherwise by then is measured once more, so that the charges are those of that very
 * moment, whatever arrived between the turns.
 */
export class PodsAhead implements MeasuredAhead {
  readonly #input: AheadInput;
  /** The observation itself; that of the input is as it was in what is written to. */
  readonly #observation: AheadInput['observation'];
  readonly #tenantClusters: number;
  readonly #oldestSample: () => number;
  readonly #measured = new Map<string, MeasuredNamespace>();
  #newest: { readonly lastChange: number; readonly nodes: SpansByName };
  /** Those that are looked up by {@link #nodeAt}. */
  #nodes: SpansByName;
  #nodeAt: NodeLookup;
  #taking: Taking | undefined;

  constructor(input: AheadInput) {
    const { observation } = input;
    const refusedNamespaces = new Set(observation.refusedNamespaces);
    this.#input = { ...input, observation: { ...observation, refusedNamespaces } };
    this.#observation = observation;
    this.#tenantClusters = observation.tenantClusters.version;
    this.#newest = newestNodes(observation);
    this.#nodes = this.#newest.nodes;
    this.#nodeAt = nodesByName(this.#input);
    this.#oldestSample = observation.usage.follow();
  }

  /** Whether anything that was measured would still come out the same with this. */
  holds(input: AheadInput): boolean {
    const { window, observation, settings, ownNodes } = input;
    const before = this.#input;
    return (
      observation === this.#observation &&
      ownNodes === before.ownNodes &&
      window.start === before.window.start &&
      window.end === before.window.end &&
      observation.tenantClusters.version === this.#tenantClusters &&
      this.#oldestSample() >= window.end &&
      isDeepStrictEqual(settings, before.settings)
    );
  }

  /**
   * Measures one pod after the other, with time for others after each; when it is called again only what has changed
   * since.
   */
  *measure(): Generator<void> {
    yield* this.#measureOnce();
    // Little of what has changed by then is left to be measured in one piece.
    yield* this.#measureOnce();
  }

  take(input: MeterInput, namespace: string): boolean {
    const measured = this.#measured.get(namespace);
    if (measured === undefined || !this.#isTakenFor(measured, input, namespace)) return false;
    this.#measured.delete(namespace);
    addCharges(input.tally, measured.tally.charges());
    addFindings(input.findings, measured.findings);
    return true;
  }

  *#measureOnce(): Generator<void> {
    const nodes = this.#nodesNow();
    const changed = changesOfNodes(nodes, this.#input.window.end);
    if (changed(this.#nodes).size > 0) {
      this.#nodes = nodes;
      this.#nodeAt = nodesByName(this.#input);
    }
    for (const [namespace] of this.#observation.pods.namespaces()) {
      const known = this.#measured.get(namespace);
      if (known === undefined || !this.#isAsMeasured(known, namespace, changed(known.nodes))) {
        yield* this.#measureNamespace(namespace);
        continue;
      }
      known.nodes = this.#nodes;
      yield;
    }
  }

  *#measureNamespace(namespace: string): Generator<void> {
    const { pods } = this.#observation;
    const [tally, findings] = [createTally(), createFindings()];
    const nodes = this.#nodes;
    const lastChange = pods.lastChange(namespace);
    const parts = { timelines: [], spans: [], tally, findings };
    const measured: MeasuredNamespace = { ...parts, lastChange, nodes };
    this.#measured.delete(namespace);
    try {
      const meter = createPodMeter({ ...this.#input, tally, findings }, this.#nodeAt);
      for (const timeline of pods.inNamespace(namespace)) {
        measured.timelines.push(timeline);
        measured.spans.push(timeline.spans);
        meter.measure(timeline);
        yield;
      }
    } catch {
      // Whoever closes the window measures it once more, and is told.
      return;
    }
    this.#measured.set(namespace, measured);
  }

  #isTakenFor(measured: MeasuredNamespace, input: MeterInput, namespace: string): boolean {
    const taking = this.#taking?.input === input ? this.#taking : this.#begin(input);
    this.#taking = taking;
    const { changed } = taking;
    const isRefused = this.#input.observation.refusedNamespaces.has(namespace);
    if (changed === undefined || input.observation.refusedNamespaces.has(namespace) !== isRefused) {
      return false;
    }
    return this.#isAsMeasured(measured, namespace, changed(measured.nodes));
  }

  #begin(input: MeterInput): Taking {
    if (!this.holds(input)) return { input, changed: undefined };
    return { input, changed: changesOfNodes(this.#nodesNow(), input.window.end) };
  }

  #nodesNow(): SpansByName {
    const { nodes } = this.#observation;
    if (nodes.lastChange('') !== this.#newest.lastChange) {
      this.#newest = newestNodes(this.#observation);
    }
    return this.#newest.nodes;
  }

  /** Whether its pods are in the window what they were, and on none of these nodes. */
  #isAsMeasured(
    measured: MeasuredNamespace,
    namespace: string,
    changed: ReadonlySet<string>,
  ): boolean {
    const { pods } = this.#observation;
    const lastChange = pods.lastChange(namespace);
    if (measured.lastChange === lastChange && changed.size === 0) return true;
    const { start, end } = this.#input.window;
    const isInside = ({ from, to }: Span<PodState>): boolean => from < end && to > start;
    let next = 0;
    for (const timeline of pods.inNamespace(namespace)) {
      const { spans } = timeline;
      const before = measured.spans[next];
      if (before === undefined || measured.timelines[next] !== timeline) {
        // What is new has come after the window.
        if (spans.some(isInside)) return false;
        continue;
      }
      next += 1;
      if (!isSameUntil(before, spans, end)) return false;
      if (changed.size === 0) continue;
      if (spans.some((span) => isInside(span) && changed.has(span.state.node))) return false;
    }
    if (next !== measured.timelines.length) return false;
    measured.lastChange = lastChange;
    return true;
  }
}

const NONE: ReadonlySet<string> = new Set();

function newestNodes({ nodes }: AheadInput['observation']) {
  return { lastChange: nodes.lastChange(''), nodes: spansByName(nodes, false) };
}

/** Tells, by what nodes were, which of them were something else before `end`, as it turns out `now`. */
function changesOfNodes(now: SpansByName, end: number): ChangedNodes {
  const known = new Map<SpansByName, ReadonlySet<string>>();
  return (before) => {
    const names = known.get(before) ?? (before === now ? NONE : changedNodes(before, now, end));
    known.set(before, names);
    return names;
  };
}

function changedNodes(before: SpansByName, after: SpansByName, end: number): ReadonlySet<string> {
  const names = new Set([...before.keys(), ...after.keys()]);
  const isChanged = (name: string): boolean =>
    !isSameNode(before.get(name) ?? [], after.get(name) ?? [], end);
  return new Set([...names].filter(isChanged));
}

/** Whether both lists say the same of a pod before `end`. */
function isSameUntil(
  a: readonly Span<PodState>[],
  b: readonly Span<PodState>[],
  end: number,
): boolean {
  if (a === b) return true;
  const before = a.filter(({ from }) => from < end);
  const after = b.filter(({ from }) => from < end);
  return (
    before.length === after.length &&
    before.every((span, index) => isSameSpan(span, after[index], end))
  );
}

function isSameSpan(a: Span<PodState>, b: Span<PodState> | undefined, end: number): boolean {
  if (b === undefined) return false;
  const isSameEnd =
    a.to === b.to ? a.unsureTo === b.unsureTo && a.endedBy === b.endedBy : a.to > end && b.to > end;
  return isSameEnd && a.from === b.from && a.state === b.state && a.unsureFrom === b.unsureFrom;
}

type SpansOfNode = NonNullable<ReturnType<SpansByName['get']>>;

/** The first state of a node reaches back, and each reaches on until the next: when they ended plays no part. */
function isSameNode(a: SpansOfNode, b: SpansOfNode, end: number): boolean {
  if (a === b) return true;
  const before = a.filter(({ from }, index) => index === 0 || from < end);
  const after = b.filter(({ from }, index) => index === 0 || from < end);
  return (
    before.length === after.length &&
    before.every(({ from, state }, index) => {
      const other = after[index];
      return other !== undefined && state === other.state && (index === 0 || from === other.from);
    })
  );
}

/** Those that a meter of pods makes; of an object the first reason of a window holds. */
function addFindings(whole: Findings, part: Findings): void {
  for (const [name, found] of part.unattributed) {
    if (!whole.unattributed.has(name)) whole.unattributed.set(name, found);
  }
  for (const [name, use] of part.controlPlane) whole.controlPlane.set(name, use);
  for (const name of part.machines) whole.machines.add(name);
  for (const [id, found] of part.unsampled) {
    const before = whole.unsampled.get(id) ?? { ...found, podMs: 0 };
    whole.unsampled.set(id, {
      podMs: before.podMs + found.podMs,
      from: Math.min(before.from, found.from),
      to: Math.max(before.to, found.to),
    });
  }
}
