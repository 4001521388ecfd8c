import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { atOnce } from '../../../model/at-once.ts';
import { assembleEvents } from '../../meters/assemble.ts';
import { settleReversals } from '../../meters/reversals.ts';
import { addTo, createTally, type Evidence } from '../../meters/tally.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { formatInstant } from '../../../model/window.ts';
import type { ClosedCharges } from '../../meters/evidence-log.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const CORE = 1_000_000_000n;
/** A GiB for each core. */
const PER_CORE = { tenant_cpu_core_hours: 1n, tenant_memory_gb_hours: 2n ** 30n };

/** A pod of a tenant: when it ran, and its resources. Infinity while it runs. */
export interface SampledPodLife {
  readonly tenant: string;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  /** Nanocores; a list has the usage in the parts of each window. */
  readonly rate: bigint | ((window: number) => readonly bigint[]);
}

const REQUESTS = { cpu: CORE, memory: 2n ** 30n * CORE, extended: new Map<string, number>() };
const LABELS = { managedBy: 'a' };
const states = new Map<string, Evidence['state']>();
const stateOf = (node: string): Evidence['state'] => {
  const state = states.get(node) ?? { labels: LABELS, requests: REQUESTS, node };
  states.set(node, state);
  return state;
};

/** Random like those of Kubernetes: one does not predict the next. */
export function uidOf(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return [
    [0, 8],
    [8, 12],
    [12, 16],
    [16, 20],
    [20, 32],
  ]
    .map(([a, b]) => hex.slice(a, b))
    .join('-');
}

export type ClosedWithEvents = ClosedCharges & { readonly events: readonly UsageEvent[] };

/** Measures and closes a window with these pods, like the operator. */
export function closing(
  start: number,
  lives: readonly SampledPodLife[],
  windowMs = MINUTE,
  late = 3_000,
): ClosedWithEvents {
  const window = { start, end: start + windowMs };
  const tally = createTally();
  for (const { tenant, name, from: began, to: ended, rate } of lives) {
    const [from, to] = [Math.max(began, start), Math.min(ended, window.end)];
    if (to <= from) continue;
    const object = { uid: uidOf(name), namespace: 'tenant-a', name };
    const state = stateOf(`node-${Number.parseInt(object.uid.slice(0, 2), 16)}`);
    const bounds = { from: from - start, to: to - start, carried: false };
    const evidence: Evidence = { kind: 'Pod', object, state, ...bounds };
    for (const metric of ['tenant_cpu_core_hours', 'tenant_memory_gb_hours'] as const) {
      const charge = tally.charge({ tenant, metric, region: 'default', resource_id: tenant });
      const parts = typeof rate === 'bigint' ? [rate] : rate(start);
      for (const [index, part] of parts.entries()) {
        const edge = (of: number): number => Math.floor(((to - from) * of) / parts.length);
        const ms = edge(index + 1) - edge(index);
        addTo(charge, { carried: false, weight: 1, ms }, part * PER_CORE[metric], evidence);
      }
    }
  }
  const { settled } = settleReversals(tally.charges(), [], window.end, 6 * HOUR);
  const closedAt = window.end + late;
  const recordedAt = formatInstant(closedAt);
  const assembled = atOnce(assembleEvents(settled, { window, recordedAt, backfilled: false }));
  expect(assembled.refused).toEqual([]);
  return { window, closedAt, events: assembled.events, sources: assembled.sources };
}

export function podsOf(
  tenant: string,
  count: number,
  from = 0,
  to = Infinity,
): readonly SampledPodLife[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `${tenant.slice(0, 20)}-worker-${index}-x-prod-x-${tenant.slice(0, 20)}`;
    return { tenant, name, from, to, rate: CORE };
  });
}
