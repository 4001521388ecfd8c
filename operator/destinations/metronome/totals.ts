import { decimalFromNanos, nanosFromDecimal, roundToDecimal } from '../../model/decimal.ts';
import type { TotalsOutcome, TotalsQuery } from '../destination.ts';
import type { MetronomeMetric } from './billable-metrics.ts';
import type { MetronomeClient } from './metronome-client.ts';

/**
 * What Metronome has of a customer's metric in whole UTC days, the only bounds that it takes (facts
 * 3.6). While a metric is followed by another, both count: the older one has all of it.
 */
export async function metronomeTotal(
  client: MetronomeClient,
  { metric: code, from, to }: TotalsQuery,
  customerId: string,
  metric: MetronomeMetric | undefined,
  signal: AbortSignal,
): Promise<TotalsOutcome> {
  if (metric === undefined) {
    return { kind: 'unsupported', reason: `Metronome has no billable metric: metric: "${code}"` };
  }
  const body = {
    starting_on: new Date(from).toISOString(),
    ending_before: new Date(to).toISOString(),
    window_size: 'NONE',
    customer_ids: [customerId],
    billable_metrics: metric.ids.map((id) => ({ id })),
  };
  const list = await client.list('/v1/usage', body, signal, 'unsized');
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  const sums = new Map<unknown, bigint>();
  for (const item of list.items) {
    if (typeof item['value'] !== 'number') continue;
    const value = roundToDecimal(String(item['value']));
    if (value === undefined) continue;
    const id = item['billable_metric_id'];
    sums.set(id, (sums.get(id) ?? 0n) + nanosFromDecimal(value));
  }
  const nanos = [...sums.values()].reduce((most, sum) => (sum > most ? sum : most), 0n);
  return { kind: 'total', quantity: decimalFromNanos(nanos) };
}
