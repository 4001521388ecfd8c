import { type Attribution, attribute } from '../../discovery/attribution.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import type { LateNamespace } from '../timelines/tenant-cluster-timeline.ts';
import { candidatesFor, type Tenancy } from '../timelines/tenancy.ts';
import type { TimelineReader } from '../timelines/timeline-rules.ts';
import { type Span, type Timeline, uncertainOf } from '../timelines/timeline.ts';
import type { MeterInput } from './meter.ts';
import { noteUnattributed } from './meter-reports.ts';
import type { Mapped } from './tally.ts';
import { strayReason, unattributedReason } from './unattributed.ts';

/** A stretch of one object's time that is charged to one tenant cluster. */
export interface WindowSpan<S> {
  readonly timeline: Timeline<S>;
  readonly state: S;
  readonly cluster: TenantCluster;
  readonly from: number;
  readonly to: number;
  /** Since when the object is in this state and its tenant cluster exists; can be before `from`. */
  readonly since: number;
  /** From a closed window, charged or reversed late (docs/explanation/metering.md#late-facts). */
  readonly carried: boolean;
  /** Uncertainty of an unobserved beginning or end; milliseconds, the larger of both. */
  readonly uncertain: number;
  /** -1 reverses what was billed. */
  readonly weight: 1 | -1;
  /** Its node counts as closed windows used it, before late facts. */
  readonly asBilled: boolean;
  readonly mapped: Mapped;
}

/** The timelines of a kind, as `Timelines` provides them. */
export type TimelineView<S> = Pick<TimelineReader<S>, 'namespaces' | 'inNamespace' | 'late'>;

interface SpansPass {
  readonly carried: boolean;
  readonly weight: 1 | -1;
  readonly asBilled: boolean;
  /** The only tenant cluster whose usage counts; absent for all of them. */
  readonly clusterId?: string;
}

/**
 * Visits all charged stretches of a kind in a window, one timeline at a step.
 * 1. The spans inside the window.
 * 2. What late facts changed about closed windows (`after − before`), also of objects that
 *    `alsoLate` selects, such as those on a changed node.
 * 3. The past of tenant clusters and namespaces that became known after their windows were closed.
 * 4. Excluded tenant clusters are left out, and control planes unless METER_CONTROL_PLANE:
 *    `visitFree` gets what is free in the window for that reason. Objects without a known owner are
 *    left out and listed.
 */
export function* visitWindowSpans<S extends { readonly labels: ObjectLabels }>(
  input: MeterInput,
  view: TimelineView<S>,
  visit: (span: WindowSpan<S>) => void,
  alsoLate?: (timeline: Timeline<S>) => boolean,
  visitFree?: (span: WindowSpan<S>) => void,
): Generator<void, void> {
  const { window, observation } = input;
  const inWindow = new Attributor(input, window.start, window.end);
  for (const [namespace, timelines] of view.namespaces()) {
    const isForeign =
      inWindow.tenancies(namespace).length === 0 && !observation.refusedNamespaces.has(namespace);
    for (const timeline of timelines) {
      const { spans } = timeline;
      if (!isForeign || spans.some(isManaged)) {
        inWindow.visit(timeline, spans, MEASURED, visit, visitFree);
      }
      yield;
    }
  }
  yield* visitPast(input, view, visit, alsoLate);
}

const MEASURED: SpansPass = { carried: false, weight: 1, asBilled: false };

/** Visits what is carried into a window from earlier ones, one timeline at a step. */
function* visitPast<S extends { readonly labels: ObjectLabels }>(
  input: MeterInput,
  view: TimelineView<S>,
  visit: (span: WindowSpan<S>) => void,
  alsoLate: ((timeline: Timeline<S>) => boolean) | undefined,
): Generator<void, void> {
  const { window, meteredFrom } = input;
  if (meteredFrom >= window.start) return;
  const inPast = new Attributor(input, meteredFrom, window.start);
  const before: SpansPass = { carried: true, weight: -1, asBilled: true };
  const after: SpansPass = { carried: true, weight: 1, asBilled: false };
  for (const timeline of lateOf(view, alsoLate)) {
    inPast.visit(timeline, timeline.billed ?? timeline.spans, before, visit);
    inPast.visit(timeline, timeline.spans, after, visit);
    yield;
  }
  for (const { cluster, namespace, from } of lateNamespaces(input)) {
    if (from >= window.start) continue;
    const past = new Attributor(input, Math.max(from, meteredFrom), window.start);
    const pass: SpansPass = { carried: true, weight: 1, asBilled: true, clusterId: cluster.id };
    for (const timeline of view.inNamespace(namespace)) {
      past.visit(timeline, timeline.billed ?? timeline.spans, pass, visit);
      yield;
    }
  }
}

function isManaged({ state }: Span<{ readonly labels: ObjectLabels }>): boolean {
  return state.labels.managedBy !== undefined;
}

/** Namespaces that became known as a tenant cluster's after their windows were closed. */
function lateNamespaces({ observation, learntUntil }: MeterInput): readonly LateNamespace[] {
  const { tenantClusters } = observation;
  if (tenantClusters.sequence <= learntUntil) return [];
  const own = tenantClusters.learntAfter(learntUntil);
  return [
    ...own.map((late) => ({ ...late, namespace: late.cluster.namespace })),
    ...tenantClusters.mappedAfter(learntUntil),
  ];
}

function lateOf<S>(
  view: TimelineView<S>,
  alsoLate: ((timeline: Timeline<S>) => boolean) | undefined,
): Iterable<Timeline<S>> {
  if (alsoLate === undefined) return view.late();
  const late = new Set(view.late());
  for (const [, timelines] of view.namespaces()) {
    for (const timeline of timelines) if (alsoLate(timeline)) late.add(timeline);
  }
  return late;
}

/**
 * Selects what is on nodes whose billed past has changed; undefined without such nodes. An object
 * whose own billed past differs is late itself, so its current spans decide.
 */
export function onLateNodes<S>(
  input: MeterInput,
  nodeOf: (state: S) => string | undefined,
): ((timeline: Timeline<S>) => boolean) | undefined {
  const names = new Set([...input.observation.nodes.late()].map(({ name }) => name));
  if (names.size === 0) return undefined;
  return ({ spans }) => spans.some(({ state }) => names.has(nodeOf(state) ?? ''));
}

function mappedTo({ namespace, source }: TenantCluster, objects: string): Mapped {
  if (namespace === objects) return source === 'workload' ? false : 'labelled';
  return source === 'namespaces' ? 'named' : true;
}

/** Attributes objects during `[from, to)`, once for each tenancy of a namespace and label set. */
class Attributor {
  readonly #input: MeterInput;
  readonly #from: number;
  readonly #to: number;
  readonly #byNamespace = new Map<string, readonly Tenancy[]>();
  readonly #answers = new Map<Tenancy, Map<ObjectLabels, Attribution>>();

  constructor(input: MeterInput, from: number, to: number) {
    this.#input = input;
    this.#from = from;
    this.#to = to;
  }

  tenancies(namespace: string): readonly Tenancy[] {
    const known = this.#byNamespace.get(namespace);
    if (known !== undefined) return known;
    const { tenantClusters } = this.#input.observation;
    const found = tenantClusters.tenancies(namespace, this.#from, this.#to);
    this.#byNamespace.set(namespace, found);
    return found;
  }

  visit<S extends { readonly labels: ObjectLabels }>(
    timeline: Timeline<S>,
    spans: readonly Span<S>[],
    pass: SpansPass,
    visit: (span: WindowSpan<S>) => void,
    visitFree: (span: WindowSpan<S>) => void = () => undefined,
  ): void {
    let objectSince: number | undefined;
    for (const span of spans) {
      objectSince ??= span.from;
      let unreported = Math.min(span.to, this.#to) - Math.max(span.from, this.#from);
      for (const tenancy of this.tenancies(timeline.namespace)) {
        const start = Math.max(span.from, tenancy.from);
        const end = Math.min(span.to, tenancy.to);
        if (end <= start) continue;
        unreported -= end - start;
        const owner = this.#ownerOf(timeline.namespace, span.state.labels, tenancy, objectSince);
        if (owner.kind === 'unattributed') {
          const clusters = candidatesFor(tenancy, objectSince);
          const reason = unattributedReason(span.state.labels, clusters);
          noteUnattributed(this.#input.diagnostics, timeline, reason);
          continue;
        }
        if (owner.kind === 'machine') {
          this.#input.diagnostics.machines.add(`${timeline.namespace}/${timeline.name}`);
          continue;
        }
        const { cluster } = owner;
        if (cluster.excluded) continue;
        const isFree = owner.kind === 'control-plane' && !cluster.metering.meterControlPlane;
        if (pass.clusterId !== undefined && cluster.id !== pass.clusterId) continue;
        // Made for every object of the cluster, so without intermediate objects.
        const charged = {
          timeline,
          state: span.state,
          cluster,
          from: start,
          to: end,
          since: Math.max(span.from, cluster.createdAt),
          carried: pass.carried,
          weight: pass.weight,
          asBilled: pass.asBilled,
          mapped: this.#input.privateNodes !== true && mappedTo(cluster, timeline.namespace),
          uncertain: Math.max(uncertainOf(span, start, end), uncertainOf(tenancy, start, end)),
        };
        const use = isFree ? visitFree : visit;
        use(charged);
      }
      // Tenancies of closed windows that ended long ago are forgotten.
      if (unreported <= 0 || pass.carried) continue;
      const stray = strayReason(this.#input.observation, timeline.namespace, span.state.labels);
      if (stray !== undefined) noteUnattributed(this.#input.diagnostics, timeline, stray);
    }
  }

  #ownerOf(
    namespace: string,
    labels: ObjectLabels,
    tenancy: Tenancy,
    objectSince: number,
  ): Attribution {
    if (tenancy.leaving !== undefined) {
      return attribute({ namespace, labels }, candidatesFor(tenancy, objectSince));
    }
    const perTenancy = this.#answers.get(tenancy) ?? new Map<ObjectLabels, Attribution>();
    this.#answers.set(tenancy, perTenancy);
    const known = perTenancy.get(labels);
    if (known !== undefined) return known;
    const answer = attribute({ namespace, labels }, tenancy.clusters);
    perTenancy.set(labels, answer);
    return answer;
  }
}
