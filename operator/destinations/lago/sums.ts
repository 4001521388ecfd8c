import { nanosFromDecimal, parseSigned, signedFromNanos } from '../../model/decimal.ts';
import { isRecord } from '../../model/is-record.ts';
import type { RecordedTotalOutcome, RecordedTotalQuery } from '../destination.ts';
import { textOf } from '../json.ts';
import { idsOf } from './customers.ts';
import type { LagoClient } from './lago-client.ts';

/** Sums events in a time range: Lago's current usage lags, and covers only this period. */
export async function sumAtLago(
  client: LagoClient,
  fieldOf: (metric: string) => string | undefined,
  { tenant, metric, from, to }: RecordedTotalQuery,
  signal: AbortSignal,
): Promise<RecordedTotalOutcome> {
  const field = fieldOf(metric);
  if (field === undefined) {
    return { kind: 'unsupported', reason: `Lago has no billable metric: metric: "${metric}"` };
  }
  const filter = new URLSearchParams({
    external_subscription_id: idsOf(tenant).subscription,
    code: metric,
    timestamp_from: new Date(from).toISOString(),
    timestamp_to: new Date(to).toISOString(),
  });
  const list = await client.list(`/events?${filter.toString()}`, 'events', signal);
  if (list.kind === 'refused') return { kind: 'unsupported', reason: list.reason };
  if (list.kind !== 'list') return { kind: 'retry', reason: list.reason };
  let nanos = 0n;
  const seen = new Set<string>();
  for (const event of list.items) {
    // With ClickHouse Lago lists a repeat beside the first event, and bills it once.
    const key = JSON.stringify([event['transaction_id'], event['timestamp']]);
    if (seen.has(key)) continue;
    seen.add(key);
    const at = Date.parse(textOf(event, 'timestamp') ?? '');
    if (at < from || at >= to || !isRecord(event['properties'])) continue;
    const quantity = parseSigned(String(event['properties'][field]));
    if (quantity !== undefined) nanos += nanosFromDecimal(quantity);
  }
  return { kind: 'total', quantity: signedFromNanos(nanos) };
}
