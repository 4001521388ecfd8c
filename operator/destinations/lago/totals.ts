import { decimalFromNanos, nanosFromDecimal, parseDecimal } from '../../model/decimal.ts';
import type { TotalsOutcome, TotalsQuery } from '../destination.ts';
import { isObject, textOf } from '../json.ts';
import type { LagoClient } from './lago-client.ts';
import { subscriptionIdOf } from './subscriptions.ts';

/**
 * What Lago has of a tenant's metric in a stretch of time, summed from its own events: its current
 * usage lags behind and knows only the period that is running (facts 7).
 */
export async function lagoTotal(
  client: LagoClient,
  { tenant, metric, from, to }: TotalsQuery,
  field: string | undefined,
  signal: AbortSignal,
): Promise<TotalsOutcome> {
  if (field === undefined) {
    return { kind: 'unsupported', reason: `Lago has no billable metric: metric: "${metric}"` };
  }
  const query = new URLSearchParams({
    external_subscription_id: subscriptionIdOf(tenant.id),
    code: metric,
    timestamp_from: new Date(from).toISOString(),
    timestamp_to: new Date(to).toISOString(),
  });
  const list = await client.list(`/events?${query.toString()}`, 'events', signal);
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  let nanos = 0n;
  for (const event of list.items) {
    const at = Date.parse(textOf(event, 'timestamp') ?? '');
    if (at < from || at >= to || !isObject(event['properties'])) continue;
    const quantity = parseDecimal(String(event['properties'][field]));
    if (quantity !== undefined) nanos += nanosFromDecimal(quantity);
  }
  return { kind: 'total', quantity: decimalFromNanos(nanos) };
}
