import type { PodTruth } from '../simulator/truth.ts';
import { type ReceivedEvent, sumNanos } from './received.ts';

/** When nobody could know, or remember, what happened: operator and API server were both away. Milliseconds since the epoch. */
export interface Outage {
  readonly from: number;
  readonly to: number;
}

export interface WrongBill {
  readonly pod: PodTruth;
  readonly billedSeconds: number;
}

/** Start of the first received window; pods that began earlier were not measured from their start. */
export function measuredFrom(events: readonly ReceivedEvent[]): number {
  return Math.min(...events.map(({ window_start }) => Date.parse(window_start)));
}

/**
 * Pods whose bill is not the truth. What ended within the outage, unseen, is billed to the last moment
 * it is known to have been alive (docs/explanation/metering.md#windows): never more than the truth. All else must be exact.
 */
export function wronglyBilled(
  pods: readonly PodTruth[],
  events: readonly ReceivedEvent[],
  outage?: Outage,
): { readonly exact: readonly WrongBill[]; readonly unseen: readonly WrongBill[] } {
  const exact: WrongBill[] = [];
  const unseen: WrongBill[] = [];
  for (const pod of pods) {
    const billedSeconds = secondsOf(pod, events);
    if (endedWithin(pod, outage)) {
      if (billedSeconds > pod.seconds) unseen.push({ pod, billedSeconds });
    } else if (billedSeconds !== pod.seconds) exact.push({ pod, billedSeconds });
  }
  return { exact, unseen };
}

/** Times of the API are whole seconds, rounded down. */
function endedWithin({ finishedAt }: PodTruth, outage: Outage | undefined): boolean {
  if (outage === undefined) return false;
  const at = Date.parse(finishedAt);
  return at + 1_000 > outage.from && at <= outage.to;
}

/** A burst pod asks for 3.6 cores in a namespace of its own, so 0.001 core-hours are one second of it. */
function secondsOf(pod: PodTruth, events: readonly ReceivedEvent[]): number {
  const mine = events.filter(
    ({ metric, dimensions }) =>
      metric === 'tenant_cpu_core_hours' && dimensions?.['namespace'] === pod.tenantNamespace,
  );
  return Number(sumNanos(mine)) / 1_000_000;
}
