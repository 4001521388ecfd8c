import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import { hostNamespace } from '../../../discovery/views.ts';
import type { RawObject } from '../../../kubernetes/source.ts';
import { seeFixture, workloadKind } from '../../../kubernetes/testing/fixtures.ts';
import {
  projectLoadBalancer,
  projectVolumeClaim,
  projectWorkload,
} from '../../timelines/retained-objects.ts';
import { type NodeView, projectNode } from '../../timelines/node.ts';
import type { NodeSettings } from '../../timelines/node-state.ts';
import type { ProviderStatement } from '../../timelines/provided-node.ts';
import { createObservation, type Observation } from '../../timelines/observation.ts';
import { projectPod } from '../../timelines/pod.ts';
import { amountAt } from '../../../kubernetes/raw-fields.ts';
import { insideTenant, tenancyOf } from '../../timelines/inside-tenant.ts';
import { projectResourceClaim } from '../../timelines/resource-claim.ts';
import { projectResourceSlice } from '../../timelines/resource-slice.ts';
import { atOnce } from '../../../model/at-once.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { assembleEvents } from '../assemble.ts';
import { type Reversal, settleReversals } from '../reversals.ts';
import type { TenantEvidence } from '../evidence-changes.ts';
import { type ClosedCharges, EvidenceLog } from '../evidence-log.ts';
import { type ClosingEvidence, Explainer, type Explanation } from '../explanation.ts';
import { createDiagnostics, type Diagnostics } from '../meter-reports.ts';
import type { MeterSettings } from '../meter.ts';
import { METERED_OBJECTS, metersAt } from '../meters.ts';
import { createTally } from '../tally.ts';
import { cluster, node, NODE_SETTINGS } from './objects.ts';
import { HOUR, START } from './times.ts';

export { HOUR, START };

/** A small cluster in memory, observed and metered as by the collector. */
export interface World {
  readonly observation: Observation;
  pod(object: RawObject, at?: number): void;
  podGone(object: RawObject, at: number): void;
  node(object: RawObject, at?: number): void;
  nodeGone(object: RawObject, at: number): void;
  claim(object: RawObject, at?: number): void;
  resourceClaim(object: RawObject, at?: number): void;
  resourceClaimGone(object: RawObject, at: number): void;
  slice(object: RawObject, at?: number): void;
  sliceGone(object: RawObject, at: number): void;
  service(object: RawObject, at?: number): void;
  namespace(object: RawObject, at?: number): void;
  workload(object: RawObject, at?: number): void;
  workloadGone(object: RawObject, at: number): void;
  clusters(clusters: readonly TenantCluster[], at?: number): void;
  /** One reading of the metrics API: cpu and memory by pod name, in Kubernetes quantities. */
  sample(usage: Readonly<Record<string, readonly [cpu: string, memory: string]>>, at: number): void;
  /** Closes the window `[from, to)`. */
  close(from: number, to: number): Closed;
  readonly clamped: number;
  readonly reversals: readonly Reversal[];
}

export interface Closed {
  readonly events: UsageEvent[];
  readonly diagnostics: Diagnostics;
  /** Exact nano-units × milliseconds charged, by metric. */
  readonly amounts: ReadonlyMap<string, bigint>;
  /** The settled charge of each event, in their order. */
  readonly explanations: readonly Explanation[];
}

export interface WorldOptions {
  readonly settings?: Partial<MeterSettings>;
  readonly nodeSettings?: Partial<NodeSettings>;
  readonly watchDeletions?: boolean;
  readonly windowMs?: number;
  /** Since when usage is sampled; from the beginning by default. */
  readonly sampledFrom?: number;
  /** The world is what this tenant cluster's own API shows; its id. */
  readonly inside?: string;
  readonly foreignSince?: (node: NodeView) => number | undefined;
  readonly providerStatement?: (node: NodeView) => ProviderStatement | undefined;
}

export function createWorld(options: WorldOptions = {}): World {
  const { watchDeletions = true, windowMs = HOUR } = options;
  let clamped = 0;
  let reversals: readonly Reversal[] = [];
  let meteredFrom = Infinity;
  let learntUntil = 0;
  const nodeSettings: NodeSettings = { ...NODE_SETTINGS, ...options.nodeSettings };
  const { inside } = options;
  const own = inside === undefined ? {} : ({ privateNodes: true } as const);
  const observation = createObservation({
    providerStatement: options.providerStatement,
    foreignSince: options.foreignSince,
    nodeSettings: () => nodeSettings,
    billedUntil: (present) =>
      watchDeletions ? present : Math.floor(present / windowMs) * windowMs,
    countClamped: () => {
      clamped += 1;
    },
  });
  const settings: MeterSettings = {
    region: 'default',
    regionFromNode: false,
    sampleValidMs: HOUR,
    gpuResources: nodeSettings.gpuResources,
    dedicatedNodeLabel: nodeSettings.dedicatedNodeLabel,
    draGpuDrivers: ['gpu.nvidia.com', 'gpu.amd.com'],
    ...options.settings,
  };
  const lists = METERED_OBJECTS.map((object) => observation[object]);
  const meters = metersAt(inside === undefined ? 'host' : 'private nodes');
  for (const list of lists) list.listed(() => true, 0);
  observation.usage.begin(options.sampledFrom ?? -Infinity);
  const podOf = inside === undefined ? projectPod : insideTenant(projectPod);
  const volumeOf = inside === undefined ? projectVolumeClaim : insideTenant(projectVolumeClaim);
  const balancerOf = inside === undefined ? projectLoadBalancer : insideTenant(projectLoadBalancer);
  const tenantClusters =
    inside === undefined
      ? observation.tenantClusters
      : tenancyOf(observation.tenantClusters, inside);
  const explainAll = createExplainer();
  const seen = (at = START - 1000) => ({ at, knownUntil: at, late: false });

  return {
    observation,
    get clamped() {
      return clamped;
    },
    get reversals() {
      return reversals;
    },
    pod: (object, at) => {
      observation.pods.upserted(projected(podOf(seeFixture('pods', object))), undefined, seen(at));
    },
    podGone: (object, at) => {
      observation.pods.deleted(projected(podOf(seeFixture('pods', object))), seen(at));
    },
    node: (object, at) => {
      observation.nodes.upserted(
        projected(projectNode(seeFixture('nodes', object))),
        undefined,
        seen(at),
      );
    },
    nodeGone: (object, at) => {
      observation.nodes.deleted(projected(projectNode(seeFixture('nodes', object))), seen(at));
    },
    claim: (object, at) => {
      observation.volumes.upserted(
        projected(volumeOf(seeFixture('persistentvolumeclaims', object))),
        undefined,
        seen(at),
      );
    },
    resourceClaim: (object, at) => {
      const view = projected(projectResourceClaim(seeFixture('resourceclaims', object)));
      observation.resourceClaims.upserted(view, undefined, seen(at));
    },
    resourceClaimGone: (object, at) => {
      observation.resourceClaims.deleted(
        projected(projectResourceClaim(seeFixture('resourceclaims', object))),
        seen(at),
      );
    },
    slice: (object, at) => {
      const view = projected(projectResourceSlice(seeFixture('resourceslices', object)));
      observation.resourceSlices.upserted(view, undefined, seen(at));
    },
    sliceGone: (object, at) => {
      observation.resourceSlices.deleted(
        projected(projectResourceSlice(seeFixture('resourceslices', object))),
        seen(at),
      );
    },
    service: (object, at) => {
      const view = balancerOf(seeFixture('services', object));
      if (view !== undefined) observation.loadBalancers.upserted(view, undefined, seen(at));
    },
    namespace: (object, at) => {
      const view = hostNamespace('meterfeed.io')(seeFixture('namespaces', object));
      observation.namespaces.upserted(projected(view), undefined, seen(at));
    },
    workload: (object, at) => {
      observation.workloads.upserted(
        projected(projectWorkload(seeFixture(workloadKind(object), object))),
        undefined,
        seen(at),
      );
    },
    workloadGone: (object, at) => {
      observation.workloads.deleted(
        projected(projectWorkload(seeFixture(workloadKind(object), object))),
        seen(at),
      );
    },
    clusters: (clusters, at = START - 1000) => {
      observation.tenantClusters.observe(clusters, at);
    },
    sample: (usage, at) => {
      for (const [name, [cpu, memory]] of Object.entries(usage)) {
        const sample = {
          at,
          cpu: Number(amountAt({ cpu }, 'cpu') ?? 0n),
          memory: Number((amountAt({ memory }, 'memory') ?? 0n) / 1_000_000_000n),
        };
        observation.usage.add(`uid-${name}`, sample);
      }
    },
    close: (start, end) => {
      const window = { start, end };
      meteredFrom = Math.min(meteredFrom, start);
      const tally = createTally();
      const diagnostics = createDiagnostics();
      for (const { measure } of meters) {
        const steps = measure({
          window,
          observation: { ...observation, tenantClusters },
          ...own,
          meteredFrom,
          learntUntil,
          settings,
          tally,
          diagnostics,
        });
        atOnce(steps);
      }
      const settlement = settleReversals(tally.charges(), reversals, end, 6 * HOUR);
      ({ reversals } = settlement);
      for (const list of lists) list.settle(end);
      learntUntil = observation.tenantClusters.sequence;
      const recordedAt = '2026-03-01T00:00:00Z';
      const { events, sources, refused } = atOnce(
        assembleEvents(settlement.settled, {
          window,
          recordedAt,
          backfilled: false,
        }),
      );
      if (refused.length > 0) throw new Error(refused.join('\n'));
      const amounts = new Map<string, bigint>();
      for (const { charge, total } of settlement.settled) {
        const { metric } = charge.identity;
        amounts.set(metric, (amounts.get(metric) ?? 0n) + total);
      }
      const explanations = explainAll({ window, closedAt: end, events, sources });
      return { events: [...events], diagnostics, amounts, explanations };
    },
  };
}

/** Explains events as the operator does: from the changes of each window and of those before. */
function createExplainer() {
  const log = new EvidenceLog();
  const closings = new Map<string, ClosingEvidence[]>();
  return (closed: ClosedCharges & { readonly events: readonly UsageEvent[] }): Explanation[] => {
    const reported = new Map<string, TenantEvidence>();
    for (const evidence of log.close(closed)) {
      const { tenant, changes } = evidence;
      reported.set(tenant, evidence);
      const before = closings.get(tenant) ?? [];
      closings.set(tenant, before);
      if (changes !== undefined) before.push({ start: closed.window.start, changes });
    }
    return closed.events.map((event) => {
      const amounts = reported.get(event.tenant)?.amounts ?? { spans: [], nanos: [] };
      const explainer = new Explainer(event);
      for (const closing of closings.get(event.tenant) ?? []) explainer.add(closing);
      const explanation = explainer.explanation(amounts);
      if (explanation === undefined) throw new Error(`not explained: ${event.id}`);
      return explanation;
    });
  };
}

function projected<T>(view: T | undefined): T {
  if (view === undefined) throw new Error('fixture without uid or name');
  return view;
}

/** The sum of a metric's quantities, as a number, over events with these dimensions or fields. */
export function total(
  events: readonly UsageEvent[],
  metric: string,
  match: Readonly<Record<string, string>> = {},
): number {
  return events
    .filter((event) => event.metric === metric)
    .filter((event) =>
      Object.entries(match).every(
        ([key, value]) =>
          event.dimensions?.[key] === value ||
          Object.entries(event).some(([k, v]) => k === key && v === value),
      ),
    )
    .reduce((sum, event) => sum + Number(event.quantity), 0);
}

/**
 * The events of one hour at a constant state: tenant cluster `a`, node `n7`, and what `build` adds.
 */
export function hour(build: (world: World) => void, options: WorldOptions = {}): UsageEvent[] {
  const world = createWorld(options);
  world.node(node('n7', { 'karpenter.sh/capacity-type': 'on-demand' }));
  world.clusters([cluster('a')]);
  build(world);
  return world.close(START, START + HOUR).events;
}

/** Core-hours. */
export function cpu(
  events: readonly UsageEvent[],
  match: Readonly<Record<string, string>> = {},
): number {
  return total(events, 'tenant_cpu_core_hours', match);
}

/** GiB-hours. */
export function memory(
  events: readonly UsageEvent[],
  match: Readonly<Record<string, string>> = {},
): number {
  return total(events, 'tenant_memory_gb_hours', match);
}
