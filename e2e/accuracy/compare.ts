import { nanosFromDecimal } from '../../operator/usage/decimal.ts';
import type { ReceivedEvent } from '../long/received.ts';
import { laterNamespaceOf, namespaceOf, type PodLife } from './workload.ts';

/** When the operator could not see what went on, milliseconds since the epoch. */
export interface Blind {
  readonly from: number;
  readonly to: number;
}

export interface MetricFigures {
  readonly metric: string;
  /** Sums over the pods that could be seen whole, in the metric's unit. */
  readonly truth: number;
  readonly billed: number;
  readonly relative_error: number;
  /** Of any one pod. */
  readonly maximum: number;
  /** The pod of it; undefined when all are exact. */
  readonly worst?: string;
}

export interface Comparison {
  readonly pods: number;
  readonly metrics: readonly MetricFigures[];
  /** Ended and removed while nobody could see it: billed until they were last seen, never beyond the truth. */
  readonly unseen: { readonly pods: number; readonly overbilled: readonly string[] };
  /**
   * A changed label has no time in the API, so it counts from its arrival: how much later than it was
   * written, seconds.
   */
  readonly arrivals: { readonly changes: number; readonly p50: number; readonly maximum: number };
}

const METRICS = [
  { metric: 'tenant_cpu_core_hours', nanosOf: (life: PodLife) => life.shape.coreNanos },
  { metric: 'tenant_memory_gb_hours', nanosOf: (life: PodLife) => life.shape.gibNanos },
] as const;

/**
 * Holds every pod's bill against the times that the API carried. Exact to the billionth is what a
 * pod is expected to be when both its ends have such a time and were seen.
 */
export function compare(
  lives: readonly PodLife[],
  events: readonly ReceivedEvent[],
  blinds: readonly Blind[],
): Comparison {
  const billed = billedNanos(events);
  const measuredFrom = Math.min(...events.map((event) => Date.parse(event.window_start)));
  const measured = lives.filter(({ startedAt }) => startedAt >= measuredFrom);
  const seen = measured.filter((life) => !wasUnseen(life, blinds));
  const unseen = measured.filter((life) => wasUnseen(life, blinds));
  const overbilled = unseen.filter((life) =>
    METRICS.some(({ metric, nanosOf }) => billedFor(life, metric) > seconds(life) * nanosOf(life)),
  );

  function billedFor({ name }: PodLife, metric: string): bigint {
    const of = billed.get(metric);
    return (of?.get(namespaceOf(name)) ?? 0n) + (of?.get(laterNamespaceOf(name)) ?? 0n);
  }

  const metrics = METRICS.map(({ metric, nanosOf }): MetricFigures => {
    let truth = 0n;
    let sum = 0n;
    let maximum = 0;
    let worst: string | undefined;
    for (const life of seen) {
      const due = seconds(life) * nanosOf(life);
      const paid = billedFor(life, metric);
      truth += due;
      sum += paid;
      const error = relative(paid, due);
      if (error <= maximum) continue;
      maximum = error;
      worst = `${life.name}: ${Number(paid) / Number(nanosOf(life))} s instead of ${seconds(life)} s`;
    }
    const figures = { metric, truth: Number(truth) / 1e9, billed: Number(sum) / 1e9, maximum };
    return {
      ...figures,
      relative_error: relative(sum, truth),
      ...(worst === undefined ? {} : { worst }),
    };
  });

  const arrivals = seen.flatMap((life) => {
    if (life.relabelledAt === undefined) return [];
    const before = billed.get('tenant_cpu_core_hours')?.get(namespaceOf(life.name)) ?? 0n;
    const splitAt = life.startedAt + (Number(before) / Number(life.shape.coreNanos)) * 1000;
    return [(splitAt - life.relabelledAt) / 1000];
  });
  const sorted = arrivals.toSorted((a, b) => a - b);
  return {
    pods: seen.length,
    metrics,
    unseen: { pods: unseen.length, overbilled: overbilled.map(({ name }) => name) },
    arrivals: {
      changes: sorted.length,
      p50: sorted[Math.floor(sorted.length / 2)] ?? 0,
      maximum: sorted.at(-1) ?? 0,
    },
  };
}

/** By metric and namespace inside the tenant cluster, billionths of the unit. */
function billedNanos(events: readonly ReceivedEvent[]): Map<string, Map<string, bigint>> {
  const byMetric = new Map<string, Map<string, bigint>>();
  for (const { metric, quantity, dimensions } of events) {
    const namespace = dimensions?.['namespace'];
    if (namespace === undefined) continue;
    const sums = byMetric.get(metric) ?? new Map<string, bigint>();
    byMetric.set(metric, sums);
    sums.set(namespace, (sums.get(namespace) ?? 0n) + nanosFromDecimal(quantity));
  }
  return byMetric;
}

/** Its final status came and it was removed while the operator saw nothing. */
function wasUnseen({ finishTold, removedAt }: PodLife, blinds: readonly Blind[]): boolean {
  return blinds.some(({ from, to }) => finishTold >= from && removedAt <= to);
}

function seconds({ startedAt, finishedAt }: PodLife): bigint {
  return BigInt((finishedAt - startedAt) / 1000);
}

function relative(paid: bigint, due: bigint): number {
  if (paid === due) return 0;
  return due === 0n ? Infinity : Math.abs(Number(paid - due)) / Number(due);
}
