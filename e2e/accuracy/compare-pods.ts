import type { ReceivedEvent } from '../long/received.ts';
import {
  type Bill,
  type Blind,
  figuresOf,
  isUnseen,
  type MetricFigures,
  nanosOf,
  sumsBy,
} from './figures.ts';
import { GPU_NANOS_PER_SECOND } from './modes.ts';
import type { Outage } from './node-changes.ts';
import { laterNamespaceOf, namespaceOf, type PodLife, podStretches } from './pod-life.ts';
import { accountOf, exactly, type Undated } from './undated.ts';

export interface PodComparison {
  readonly pods: number;
  readonly metrics: readonly MetricFigures[];
  /** Ended and removed while nobody could see it: billed until they were last seen, never beyond the truth. */
  readonly unseen: readonly Undated[];
  /**
   * A changed label has no time in the API, so it counts from its arrival: how much later than it was
   * written, seconds.
   */
  readonly arrivals: { readonly changes: number; readonly p50: number; readonly maximum: number };
}

export interface PodTruth {
  readonly lives: readonly PodLife[];
  readonly outages: readonly Outage[];
  readonly blinds: readonly Blind[];
}

/** A metric of pods, and what a second of one costs, billionths. */
interface PodMetric {
  readonly metric: string;
  readonly of?: string;
  readonly rate: (life: PodLife) => bigint;
}

const CPU = 'tenant_cpu_core_hours';

/**
 * Holds every pod's bill against the times that the API carried. Exact to the billionth is what a
 * pod is expected to be when both its ends have such a time and were seen.
 */
export function comparePods(truth: PodTruth, events: readonly ReceivedEvent[]): PodComparison {
  const { lives, outages, blinds } = truth;
  const ofNamespace = ({ dimensions }: ReceivedEvent): string | undefined =>
    dimensions?.['namespace'];
  const billed = new Map(
    [CPU, 'tenant_memory_gb_hours', 'tenant_gpu_hours'].map((metric) => [
      metric,
      sumsBy(events, metric, ofNamespace),
    ]),
  );
  const paidFor = ({ name }: PodLife, metric: string): bigint => {
    const sums = billed.get(metric);
    return (sums?.get(namespaceOf(name)) ?? 0n) + (sums?.get(laterNamespaceOf(name)) ?? 0n);
  };
  const metrics = podMetrics(lives);
  const dueFor = (life: PodLife, rate: PodMetric['rate']): bigint =>
    rate(life) * (seconds(life) - downSeconds(life, outages));

  const measuredFrom = Math.min(...events.map((event) => Date.parse(event.window_start)));
  const measured = lives.filter(({ startedAt }) => startedAt >= measuredFrom);
  const seen = measured.filter((life) => !wasUnseen(life, truth));
  const unseen = measured.filter((life) => wasUnseen(life, truth));
  const figures = metrics.map(({ metric, of, rate }) => {
    const concerned = seen.filter((life) => rate(life) > 0n);
    const bills = concerned.map((life) => ({
      name: life.name,
      due: dueFor(life, rate),
      paid: paidFor(life, metric),
    }));
    return figuresOf(metric, of, bills);
  });
  const ofNode = ({ dimensions }: ReceivedEvent): string | undefined => dimensions?.['node'];
  const down = sumsBy(events, 'tenant_gpu_downtime_hours', ofNode);
  const bills = outages.map(({ node }) =>
    downtimeBill(node, measured, truth, down.get(node) ?? 0n),
  );
  const downtime = figuresOf('tenant_gpu_downtime_hours', 'pods on nodes that go down', bills);
  return {
    pods: seen.length,
    metrics: [...figures, downtime],
    unseen: unseen.map((life) => unseenOf(life, outages)),
    arrivals: arrivalsOf(
      seen.filter(({ node }) => outages.every((outage) => outage.node !== node)),
      billed.get(CPU),
      blinds,
    ),
  };
}

/** What certainly was of it, and the most that can have been: times of the API are whole seconds. */
export function unseenOf(life: PodLife, outages: readonly Outage[]): Undated {
  const { name, tenantCluster, shape, mode, startedAt, finishedAt, node } = life;
  const down = outages.find((outage) => outage.node === node)?.from ?? Infinity;
  const end = { from: Math.max(startedAt, Math.min(finishedAt, down)), to: finishedAt + 1_000 };
  return {
    what: 'pods that ended unseen',
    name,
    kind: 'pods',
    dated: true,
    accounts: [namespaceOf(name), laterNamespaceOf(name)].map((namespace) =>
      accountOf(tenantCluster, namespace),
    ),
    stretches: podStretches(shape, mode, exactly(startedAt), end),
  };
}

function podMetrics(lives: readonly PodLife[]): readonly PodMetric[] {
  const profiles = new Set(lives.flatMap(({ mode }) => mode?.profile ?? []));
  return [
    { metric: CPU, rate: ({ shape }) => nanosOf(shape.cores, 1_000) },
    { metric: 'tenant_memory_gb_hours', rate: ({ shape }) => nanosOf(shape.gib, 1_000) },
    ...[...profiles].toSorted().map((profile) => ({
      metric: 'tenant_gpu_hours',
      of: profile,
      rate: ({ mode }: PodLife) => (mode?.profile === profile ? GPU_NANOS_PER_SECOND : 0n),
    })),
  ];
}

/** Downtime has no namespace: it is that of the node. Pods that ended unseen may or may not be in it. */
function downtimeBill(
  node: string,
  measured: readonly PodLife[],
  truth: PodTruth,
  paid: bigint,
): Bill {
  const own = measured.filter((life) => life.node === node);
  const sum = (lives: readonly PodLife[]): bigint =>
    lives.reduce((all, life) => all + GPU_NANOS_PER_SECOND * downSeconds(life, truth.outages), 0n);
  const least = sum(own.filter((life) => !wasUnseen(life, truth)));
  const most = sum(own);
  const due = paid < least ? least : paid > most ? most : paid;
  return { name: node, due, paid };
}

/** Whole seconds that a pod had left when its node was down. */
function downSeconds(life: PodLife, outages: readonly Outage[]): bigint {
  const outage = outages.find(({ node }) => node === life.node);
  if (outage === undefined) return 0n;
  const ms = life.finishedAt - Math.max(life.startedAt, outage.from);
  return BigInt(Math.max(0, ms) / 1000);
}

function arrivalsOf(
  seen: readonly PodLife[],
  billed: ReadonlyMap<string, bigint> | undefined,
  blinds: readonly Blind[],
): PodComparison['arrivals'] {
  const arrivals = seen.flatMap((life) => {
    if (life.relabelledAt === undefined) return [];
    const at = life.relabelledAt;
    if (blinds.some(({ from, to }) => at >= from && at <= to)) return [];
    const before = billed?.get(namespaceOf(life.name)) ?? 0n;
    const splitAt = life.startedAt + Number(before) / Number(nanosOf(life.shape.cores, 1));
    return [(splitAt - at) / 1000];
  });
  const sorted = arrivals.toSorted((a, b) => a - b);
  return {
    changes: sorted.length,
    p50: sorted[Math.floor(sorted.length / 2)] ?? 0,
    maximum: sorted.at(-1) ?? 0,
  };
}

/**
 * Its final status came and it was removed while the operator saw no pods; or its claim was there only
 * while it saw no claims; or its node went down and was removed while it saw no nodes.
 */
function wasUnseen(life: PodLife, { blinds, outages }: PodTruth): boolean {
  const { startedAt, finishReported, removedAt, claimRemovedAt, node } = life;
  if (isUnseen(blinds, 'pods', finishReported, removedAt)) return true;
  if (
    claimRemovedAt !== undefined &&
    isUnseen(blinds, 'resourceclaims', startedAt, claimRemovedAt)
  ) {
    return true;
  }
  const outage = outages.find((one) => one.node === node);
  return outage !== undefined && isUnseen(blinds, 'nodes', outage.from, outage.to);
}

function seconds({ startedAt, finishedAt }: PodLife): bigint {
  return BigInt((finishedAt - startedAt) / 1000);
}
